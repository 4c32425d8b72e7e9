from pathlib import Path

import pytest

from tests.pages.viewer.reading import Reader


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """The viewer of an empty repository."""
    return Reader(tmp_path / "answers")
