"""`regrade view`."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from cyclopts import Parameter

from regrade.cli.command_list import command
from regrade.cli.options import WHERE
from regrade.settings import ANSWER_SET_START
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.answers.sets import AnswerSet

PORT = 4300


@command(group="Grade and read")
def view(
    answers: str | None = None,
    answer_set: str | None = None,
    *,
    against: Annotated[str | None, Parameter(name=("--baseline", "--against"))] = None,
    scorer: str | None = None,
    at: str | None = None,
    host: Annotated[str, Parameter(group=WHERE)] = "127.0.0.1",
    port: Annotated[int, Parameter(group=WHERE)] = PORT,
    empty: Annotated[bool, Parameter(group=WHERE)] = False,
) -> None:
    """Read answers in a browser: filter, compare, see what the scorer read.

    Serves read-only pages on this machine until Ctrl-C, and prints their address.

    Args:
        answers: Answer repository: `hf://datasets/ORG/NAME` or a folder. Default: REGRADE_ANSWERS, else `./answers`. The id of
            an answer set alone begins with that set of the default repository.
        answer_set: Answer set to begin with: id (the first digits are enough), model or alias; of several the newest.
        against: Answer set to compare it with, named in the same way: begin with the comparison.
        scorer: Stored scoring to begin with, or a scorer: its current one; the headline's if not given.
        at: Branch, tag or commit of the repository to begin with; the newest commit if not given.
        host: Address to listen on. Any other than loopback needs a token in REGRADE_VIEW_TOKEN.
        port: Port to listen on; 0 takes any free one.
        empty: Start even if the repository holds no answers yet.

    Examples:
        view
        view hf://datasets/ORG/NAME 1f0c6a2b
    """
    if (
        answers
        and answer_set is None
        and ANSWER_SET_START.fullmatch(answers)
        and not Path(answers).exists()
    ):
        answers, answer_set = None, answers  # `regrade view ID`, as in `regrade show ID`
    if not 0 <= port <= 65535:
        raise SettingsError(f"`--port {port}` should be from 0 to 65535.")
    if against is not None and answer_set is None:
        raise SettingsError(
            f"`--baseline {against}` needs the answer set that it is compared with."
        )
    if scorer is not None and (answer_set is None or against is not None):
        raise SettingsError(f"`--scorer {scorer}` needs one answer set, whose scoring is shown.")
    # A refusal does not wait for these imports.
    from regrade.answers.opening import open_repository  # noqa: PLC0415
    from regrade.answers.sets import readable_sets  # noqa: PLC0415
    from regrade.comparing.sides import named_id  # noqa: PLC0415
    from regrade.pages.viewer.serving import application, bound_socket, place_for, serve  # noqa: PLC0415
    from regrade.settings.view_address import comparison_path, default_answers, set_path  # noqa: PLC0415

    place = place_for(host, port)
    repository = open_repository(answers or default_answers(), create=False, empty=empty)
    path, revision = "/", repository.head()
    if at is not None:
        revision = repository.resolve(at)
    if revision is not None:
        ids = []
        for given in filter(None, (against, answer_set)):
            set_id = named_id(repository, revision, given, newest=True)
            found, damaged = readable_sets(repository, revision, answer_set_id=set_id)
            if damaged:
                raise damaged[0]
            ids.append(found[0].manifest.answer_set_id)
            if scorer is not None:
                _check_scored(found[0], scorer)
        if ids:
            path = set_path(ids[0]) if len(ids) == 1 else comparison_path(ids[0], ids[1])
        chosen = {"scorer": scorer, "at": at and revision}
        if given_query := urlencode({name: value for name, value in chosen.items() if value}):
            path += f"?{given_query}"
    with bound_socket(host, port) as listener:
        place = replace(place, port=listener.getsockname()[1])
        sys.stdout.write(f"{place.url}{path}\n")
        if place.prefix is not None:
            sys.stdout.write(f"{place.prefix}{path}\n")
        sys.stdout.flush()
        sys.stderr.write("Ctrl-C stops the viewer.\n")
        with suppress(KeyboardInterrupt):  # nothing is left undone
            serve(application(repository, place), listener, place)


def _check_scored(answers: "AnswerSet", scorer: str) -> None:
    if not any(scorer in (file.scorer, file.label) for file in answers.scores(scorer)):
        files = answers.intact_scores()
        known = {name for file in files for name in (file.scorer, file.label)}
        listed = ", ".join(sorted(known)) or "none: it has no scoring"
        raise SettingsError(
            f"`--scorer {scorer}` should be a stored scoring of '{answers.manifest.answer_set_id}', or its scorer: {listed}."
        )
