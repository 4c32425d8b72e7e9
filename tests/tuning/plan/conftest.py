"""Configurations of real models, from the package `aiconfigurator-core`, whose files are read without importing it."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_configs() -> Path:
    """Folder of `<organisation>--<model>_config.json`."""
    package = importlib.util.find_spec("aiconfigurator_core")
    if package is None or not package.submodule_search_locations:
        pytest.skip(
            "aiconfigurator-core, which has the configurations of real models, is not installed"
        )
    return Path(package.submodule_search_locations[0]) / "model_configs"
