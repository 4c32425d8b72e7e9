"""A configured Prefect server is found without importing Prefect if there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.settings import Settings
from pydantic_settings import InitSettingsSource

from regrade.orchestration.configured import may_have_server

ADDRESS = "http://127.0.0.1:4200/api"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, and a folder of Prefect, in which nothing names a server."""
    for name in os.environ:
        if name.startswith(("PREFECT_API", "PREFECT_PROFILE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "name:password")  # of any server
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    return folder


def test_no_server_where_nothing_names_one(nowhere: Path):
    (nowhere / "pyproject.toml").write_text('[project]\ndependencies = ["prefect"]\n')
    assert not may_have_server()
    assert has_server_and_imports_prefect() == ["False", "False"]


def has_server_and_imports_prefect() -> list[str]:
    """Return both for a new process in this folder."""
    code = (
        "import sys; from regrade.orchestration.configured import has_server; "
        "print(has_server(), 'prefect' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (".env", f"PREFECT_API_URL={ADDRESS}"),
        ("prefect.toml", f'[api]\nurl = "{ADDRESS}"'),
        ("pyproject.toml", f'[tool.prefect.api]\nurl = "{ADDRESS}"'),
        ("pyproject.toml", "not TOML"),
        ("../prefect/profiles.toml", f'[profiles.team]\nPREFECT_API_URL = "{ADDRESS}"'),
    ],
)
def test_a_file_of_settings_may_name_a_server(nowhere: Path, file: str, content: str):
    path = nowhere / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert may_have_server()


@pytest.mark.parametrize(
    "variable",
    [
        "PREFECT_API_URL",
        "prefect_api_url",
        "PREFECT_API",
        "PREFECT_PROFILE",
        "PREFECT_PROFILES_PATH",
        "PREFECT_PLUGINS_ENABLED",
    ],
)
def test_a_variable_may_name_a_server(
    nowhere: Path, variable: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, ADDRESS)
    assert may_have_server()


def test_a_server_in_a_file_is_the_server_of_a_command(nowhere: Path):
    (nowhere / "prefect.toml").write_text(f'[api]\nurl = "{ADDRESS}"')
    assert has_server_and_imports_prefect() == ["True", "True"]


def test_prefect_reads_its_settings_from_no_other_places():
    config = Settings.model_config
    none = InitSettingsSource(Settings, {})
    sources = Settings.settings_customise_sources(Settings, none, none, none, none)
    names = [type(source).__name__ for source in sources if source is not none]
    assert names == [
        "EnvFilterSettingsSource",
        "FilteredDotEnvSettingsSource",
        "PrefectTomlConfigSettingsSource",
        "PyprojectTomlConfigSettingsSource",
        "ProfileSettingsTomlLoader",
    ]
    assert (config["env_file"], config["secrets_dir"], config["env_prefix"]) == (
        ".env",
        None,
        "PREFECT_",
    )
