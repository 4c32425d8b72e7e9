"""Imports without garbage collection."""

import gc

import pytest

from regrade.processes.importing import quick_imports


def test_garbage_is_collected_again_after_imports_also_failed_ones():
    try:
        with quick_imports():
            assert not gc.isenabled()
        assert gc.isenabled()
        with pytest.raises(ModuleNotFoundError), quick_imports():
            import no_such_module  # noqa: F401
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_who_switched_the_collector_off_keeps_it_so():
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
