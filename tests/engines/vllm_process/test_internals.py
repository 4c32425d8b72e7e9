"""The names of vLLM that regrade uses exist, and what a version lacks is named."""

import dataclasses
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from regrade.engines.vllm_process.loading import SUPPORTED, import_vllm
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.settings.errors import SettingsError
from tests.command_line import ROOT

INTERNALS = "regrade.engines.vllm_process.internals"
imports_torch = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_the_tested_version_is_within_the_bound_of_the_cuda_build():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (cuda, _), (tested, _) = (
        map(Requirement, project["optional-dependencies"][extra]) for extra in ("cuda", "vllm")
    )
    (version,) = (specifier.version for specifier in tested.specifier)

    assert cuda.specifier == Requirement(f"vllm{SUPPORTED}").specifier
    assert version in cuda.specifier
    assert any(specifier.operator == "<" for specifier in cuda.specifier)


@pytest.mark.vllm
@imports_torch
def test_the_installed_vllm_has_all_names():
    from regrade.engines.vllm_process import internals

    assert internals.unknown() == []
    fields = {field.name for field in dataclasses.fields(internals.EngineArgs)}
    # The parser of calls is applied to answers, not by the engine.
    assert fields >= VllmSettings().arguments.keys() - {"tool_parser"}


@pytest.mark.vllm
@imports_torch
def test_a_member_that_vllm_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    from regrade.engines.vllm_process import internals

    monkeypatch.delattr(internals.LLMEngine, "step")

    with pytest.raises(SettingsError, match=r"has no LLMEngine\.step\. Install vLLM >=") as caught:
        import_vllm()

    assert internals.__version__ in str(caught.value)


@pytest.mark.vllm
@imports_torch
@pytest.mark.parametrize(
    "name", ["v1.core.kv_cache_utils.get_kv_cache_capacity", "distributed.parallel_state._PCP"]
)
def test_a_name_for_planning_that_vllm_lacks_is_named_and_an_engine_works_without_it(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    from regrade.engines.vllm_process import internals

    assert internals.planning_names().initialize_model
    monkeypatch.delattr(f"vllm.{name}")

    with pytest.raises(ImportError, match=name.rpartition(".")[2]):
        internals.planning_names()
    assert import_vllm() is internals


@pytest.mark.vllm
@imports_torch
def test_a_name_that_vllm_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    import vllm.inputs

    monkeypatch.delattr(vllm.inputs, "tokens_input")
    monkeypatch.delitem(sys.modules, INTERNALS, raising=False)
    monkeypatch.delattr("regrade.engines.vllm_process.internals", raising=False)

    with pytest.raises(SettingsError, match=r"cannot import name 'tokens_input'.* Install vLLM >="):
        import_vllm()


def test_an_import_that_fails_inside_vllm_keeps_its_own_error(monkeypatch: pytest.MonkeyPatch):
    """A missing library is not a wrong version of vLLM."""

    class Failing:
        def find_spec(self, name, path=None, target=None):
            if name == INTERNALS:
                raise ImportError(
                    "libcudart.so.12: cannot open shared object file", name="libcudart"
                )

    monkeypatch.delitem(sys.modules, INTERNALS, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    package = sys.modules["regrade.engines.vllm_process"]
    monkeypatch.delattr(package, "internals", raising=False)

    with pytest.raises(ImportError, match="libcudart"):
        import_vllm()
