import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from regrade.engines.vllm_process.allowed import refuse_code
from regrade.engines.vllm_process.environment import worker_environment
from regrade.engines.vllm_process.process import EngineProcess
from regrade.processes.slots import machine_folder
from regrade.settings.errors import SettingsError
from regrade.settings.worker_limits import REMOTE_CODE as CODE

LEVEL = "from huggingface_hub.utils import logging; print(logging.get_verbosity())"


def test_warnings_of_downloads_which_have_signed_addresses_stay_out_of_the_engines_log(
    tmp_path: Path,
):
    def level(environment: dict[str, str]) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", LEVEL], env=environment, capture_output=True, check=True
        )
        return ran.stdout.decode().strip()

    assert level(worker_environment({}, tmp_path)) == "40"  # errors
    assert level(worker_environment({"HF_HUB_VERBOSITY": "info"}, tmp_path)) == "20"


CREDENTIALS = (
    *("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_API_KEY", "PREFECT__FLOW_RUN_ID"),
    *("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
    *("PGPASSWORD", "PGPASSFILE", "POSTGRES_PASSWORD", "DATABASE_URL", "OPENAI_API_KEY"),
    *("AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GITHUB_TOKEN", "CI_JOB_TOKEN"),
    *("WANDB_API_KEY", "SSH_AUTH_SOCK", "REGRADE_NOTES_TOKEN", "VLLM_API_KEY", "HF_TOKEN"),
    *("HUGGING_FACE_HUB_TOKEN",),
)
NEEDED = (
    *("PATH", "HOME", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "HF_HOME"),
    *("HF_ENDPOINT", "HF_HUB_OFFLINE", "VLLM_CPU_KVCACHE_SPACE", "TOKENIZERS_PARALLELISM"),
    *("TORCHINDUCTOR_CACHE_DIR", "OMP_NUM_THREADS", "https_proxy", "REGRADE_CPU_NICE"),
    "PYTHONHASHSEED",
)


def test_the_engine_gets_what_it_needs_and_no_credential(tmp_path: Path):
    found = worker_environment(dict.fromkeys((*CREDENTIALS, *NEEDED), "x"), tmp_path)
    assert not found.keys() & set(CREDENTIALS)
    assert {name: found.get(name) for name in NEEDED} == dict.fromkeys(NEEDED, "x")


def test_ray_finds_its_cluster_although_the_temporary_folder_is_another(tmp_path: Path):
    environment = worker_environment({}, tmp_path)

    assert environment["TMPDIR"] == str(tmp_path)
    assert environment["RAY_TMPDIR"] == tempfile.gettempdir()
    assert worker_environment({"RAY_TMPDIR": "/ray"}, tmp_path)["RAY_TMPDIR"] == "/ray"


def test_no_header_is_compiled_anew_for_each_engine(tmp_path: Path):
    name = "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"
    torch = find_spec("torch")
    assert torch is not None
    assert torch.submodule_search_locations is not None
    settings = Path(torch.submodule_search_locations[0], "_inductor", "config.py").read_text()

    assert f'"{name}"' in settings, "torch has no such variable any more"
    assert worker_environment({}, tmp_path)[name] == "0"
    assert worker_environment({name: "1"}, tmp_path)[name] == "1"


def test_the_token_of_the_hub_is_for_models_of_the_hub(tmp_path: Path):
    given = {"HF_TOKEN": "hf_x", "PREFECT_API_AUTH_STRING": "x"}
    found = worker_environment(given, tmp_path, hub_token=True)
    assert found["HF_TOKEN"] == "hf_x"
    assert "PREFECT_API_AUTH_STRING" not in found


def test_a_variable_that_the_list_lacks_can_be_named(tmp_path: Path):
    given = {"ODD_DRIVER": "x", "OTHER": "y", "REGRADE_ENGINE_VARIABLES": "ODD_DRIVER, MORE"}
    found = worker_environment(given, tmp_path)
    assert found["ODD_DRIVER"] == "x"
    assert not found.keys() & {"OTHER", "MORE"}


def test_the_processes_of_an_engine_have_no_credential_in_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in CREDENTIALS:
        monkeypatch.setenv(name, "a credential")
    told = tmp_path / "told"
    code = f"import os; open({str(told)!r}, 'w').write(chr(10).join(os.environ))"
    process = EngineProcess([sys.executable, "-c", code], tmp_path / "log")
    supervisor = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    assert process.has_ended(within=30)
    process.end()
    assert not {line.partition("=")[0] for line in supervisor} & set(CREDENTIALS)
    assert not set(told.read_text().split()) & set(CREDENTIALS)
    assert "PATH" in told.read_text().split()
    assert os.environ["HF_TOKEN"] == "a credential"


@pytest.mark.parametrize("name", ["trust_remote_code", "worker_cls", "log_config_file"])
def test_a_worker_runs_code_of_a_model_only_if_its_machine_allows_it(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(CODE, "0")
    refuse_code({"max_num_seqs": 4, "trust_remote_code": False})
    with pytest.raises(SettingsError, match=rf"does not accept {name}='evil.Module' .* {CODE}=1"):
        refuse_code({name: "evil.Module"})
    monkeypatch.setenv(CODE, "1")
    refuse_code({name: "evil.Module"})


def test_the_cache_of_compiled_code_is_a_folder_that_no_other_user_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache = worker_environment({}, tmp_path)["TORCHINDUCTOR_CACHE_DIR"]
    assert cache == str(machine_folder("torchinductor"))  # see tests/processes/test_slots.py
