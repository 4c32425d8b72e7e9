"""Bubblewrap for tests: where it cannot be installed, they are skipped."""

import os
import shutil

import pytest

_CAN_INSTALL = os.geteuid() == 0 and shutil.which("apt-get") is not None
needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None and not _CAN_INSTALL,
    reason="bubblewrap is not installed: apt-get install bubblewrap (`infra/install.sh --dev` does it as root)",
)
"""Skips a test without bubblewrap, unless it could have been installed: then the test fails."""
