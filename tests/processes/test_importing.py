"""Imports without garbage collection."""

import gc

import pytest

from regrade.processes.importing import quick_imports


def test_garbage_is_collected_again_after_imports_also_failed_ones():
    with quick_imports():
        made: list[object] = []
        assert not gc.isenabled()
    assert gc.isenabled()
    assert any(item is made for item in gc.get_objects(generation=2))
    with pytest.raises(ModuleNotFoundError), quick_imports():
        import no_such_module  # noqa: F401
    assert gc.isenabled()


def test_who_switched_the_collector_off_keeps_it_so():
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
