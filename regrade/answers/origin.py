"""The origin of a spool: everything needed to publish its rows without the run that generated them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import Field, ValidationError, model_validator

from regrade.answers.manifest import ImagesKept, Manifest, Session, Shard, Stopped, state_of
from regrade.answers.spool import ORIGIN, Spool, SpoolError
from regrade.records.specification import Specification
from regrade.settings import StoredName, StrictModel
from regrade.stats.speed import Speed


class SetDescription(StrictModel):
    """The fields of a manifest that are known before generation."""

    specification: Specification
    n_samples: int = Field(ge=1)
    scorers: tuple[StoredName, ...]
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    withheld: bool = False
    images: ImagesKept | None = Field(None, exclude_if=lambda kept: kept is None)

    def manifest(
        self,
        shards: Sequence[Shard],
        sessions: Sequence[Session],
        created: datetime,
        replaced: Sequence[str] = (),
    ) -> Manifest:
        """Return the manifest with the given shards and sessions; a session without rows is left out."""
        counted = [session.counted(shards) for session in sessions]
        return Manifest(
            **dict(self),
            answer_set_id=self.specification.answer_set_id,
            state=state_of(self.n_samples * self.specification.repeats, shards),
            rows=sum(shard.rows for shard in shards),
            shards=tuple(shards),
            replaced=tuple(replaced),
            sessions=tuple(s for s in counted if s.rows or s.id is None),
            created_at=created,
            updated_at=datetime.now(UTC),
        )


class Origin(StrictModel):
    """Repository and answer set of a spool's rows, and the sessions that generated them."""

    repository: str
    """`Repository.uri`."""
    description: SetDescription
    sessions: tuple[Session, ...] = ()
    """Sessions of the rows, without counts."""
    replaced: tuple[str, ...] = ()
    """sha256 of the published shards that these rows replace."""
    fresh: bool = False
    """The replaced shards can be read: they stay until there is an answer to replace them with."""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: object) -> object:
        """Accept the origin of a spool of version 1, which had one session."""
        if isinstance(values, dict) and "session" in values:
            session = values["session"]
            others = {name: value for name, value in values.items() if name != "session"}
            return {**others, "sessions": [session]}
        return values


def begin_session(
    spool: Spool,
    repository_uri: str,
    description: SetDescription,
    session: Session,
    *,
    replaced: tuple[str, ...] = (),
    fresh: bool = False,
) -> None:
    """Note a session in the spool: the rows that follow are its own, and can be published without this process.

    Args:
        spool: Open spool of the answer set.
        repository_uri: `Repository.uri`.
        description: The answer set.
        session: The session, without counts; it needs an `id`.
        replaced: See `Origin.replaced`.
        fresh: See `Origin.fresh`.
    """
    before = read_origin(spool)
    earlier = [noted for noted in (before.sessions if before else ()) if noted.id != session.id]
    origin = Origin(
        repository=repository_uri,
        description=description,
        sessions=(*earlier, session),
        replaced=replaced,
        fresh=fresh,
    )
    spool.note_origin(origin.model_dump(mode="json"))
    spool.begin(str(session.id))


def note(spool: Spool, session_id: str, **changes: Speed | Stopped) -> None:
    """Add `speed`, the measurements, or `stopped`, an early verdict, to a session that the spool notes."""
    origin = read_origin(spool)
    if origin is None:
        raise RuntimeError(f"the spool notes no session '{session_id}': begin it first")
    sessions = tuple(
        session.model_copy(update=changes) if session.id == session_id else session
        for session in origin.sessions
    )
    noted = origin.model_copy(update={"sessions": sessions})
    spool.note_origin(noted.model_dump(mode="json"))


def read_origin(spool: Spool) -> Origin | None:
    """Return the origin that a spool notes, or None.

    Raises:
        SpoolError: If it was written by another version of regrade that this one does not know.
    """
    path = spool.folder / ORIGIN
    if not path.is_file():
        return None
    try:
        return Origin.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = (
            f"'{ORIGIN}' was written by another version of regrade ({' '.join(str(error).split())})"
        )
        raise SpoolError(str(spool.folder), problem) from error
