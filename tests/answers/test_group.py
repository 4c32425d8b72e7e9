"""Two people of a group, one folder: each commits, whatever their umask, or is told before anything is generated."""

import os
import shutil
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.sets import list_sets
from regrade.answers.spool import Spool
from regrade.answers.verify import verify
from regrade.settings.errors import RepositoryError
from tests.answers.conftest import add
from tests.builders import description, row, session

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")
GROUP, ANA, BEN, OTHER = 3000, 2001, 2002, 3001


@pytest.fixture
def shared() -> Iterator[Path]:
    """Folder of a group, as `chgrp lab; chmod g+ws` leaves it."""
    folder = Path(tempfile.mkdtemp(prefix="regrade-group-"))
    folder.chmod(0o755)
    lab = folder / "lab"
    lab.mkdir()
    os.chown(lab, ANA, GROUP)
    lab.chmod(0o2775)
    yield lab
    shutil.rmtree(folder)


def as_user(user: int, group: int, umask: int, act: Callable[[], object]) -> int:
    """Run a function in a process of a user, and return the exit code."""
    if not (child := os.fork()):
        code = 1
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            os.umask(umask)
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - this process ends here
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def publish(lab: Path, *numbers: int) -> None:
    repository = LocalRepository(lab / "answers")
    repository.check_writable()
    rows = [row(n) for n in numbers]
    add(repository, lab / "spool" / "set", description(4), rows, number=numbers[0])


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077], ids=oct)
def test_the_second_user_of_a_group_commits_to_the_same_answer_set_and_spool(
    shared: Path, umask: int
):
    for user, number in ((ANA, 0), (BEN, 1), (ANA, 2), (BEN, 3)):
        assert as_user(user, GROUP, umask, lambda: publish(shared, number)) == 0  # noqa: B023
    repository = LocalRepository(shared / "answers")
    head = repository.head()
    assert head is not None
    assert not verify(repository, head).problems
    (stored,) = list_sets(repository, head)
    assert (stored.manifest.state, stored.manifest.rows) == ("complete", 4)
    for path in shared.rglob("*"):
        found = path.stat()
        assert found.st_gid == GROUP, path
        assert found.st_mode & stat.S_IRGRP, path
        if path.is_dir():
            assert found.st_mode & 0o2070 == 0o2070, path


def test_a_row_that_one_user_left_in_the_spool_is_published_by_another(shared: Path):
    def leave() -> None:
        with Spool(shared / "spool" / "set") as spool:
            begin_session(spool, str(shared / "answers"), description(4), session(1))
            spool.append([row(0)])

    assert as_user(ANA, GROUP, 0o022, leave) == 0
    assert as_user(BEN, GROUP, 0o022, lambda: publish(shared, 1)) == 0
    repository = LocalRepository(shared / "answers")
    (stored,) = list_sets(repository, repository.head() or "")
    assert stored.manifest.rows == 2


@pytest.mark.parametrize("part", ["", ".regrade", "answers/test", "scores"])
def test_missing_write_access_is_known_before_anything_is_generated(shared: Path, part: str):
    assert as_user(ANA, GROUP, 0o002, lambda: publish(shared, 0)) == 0
    (shared / "answers" / "scores").mkdir(exist_ok=True)
    os.chown(shared / "answers" / "scores", ANA, GROUP)
    folder = shared / "answers" / part
    if part.endswith("test"):
        folder = next((shared / "answers" / "answers").iterdir())
    folder.chmod(0o755)

    def check() -> None:
        with pytest.raises(RepositoryError, match="is not writable .no write access to"):
            LocalRepository(shared / "answers").check_writable()

    assert as_user(BEN, GROUP, 0o002, check) == 0
    assert as_user(BEN, OTHER, 0o002, check) == 0
