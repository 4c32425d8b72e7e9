import pytest

from regrade.settings.errors import SettingsError
from regrade.stats.speed import GIB, MIB, gib
from regrade.tuning.plan.gpus import MEMORY_MIB, gpu_memory, is_device, parse_memory


@pytest.mark.parametrize("name", ["h100", "H100", "NVIDIA H100", "nvidia-h100"])
def test_a_gpu_is_found_by_name_however_it_is_written(name: str):
    assert gpu_memory(name) == 81559 * MIB


def test_an_unknown_gpu_is_answered_with_the_closest():
    with pytest.raises(
        SettingsError, match=r"Unknown GPU 'h10'\. Did you mean 'h100'\?.*--gpu-memory"
    ):
        gpu_memory("h10")


def test_a_gpu_that_comes_with_several_memories_asks_which():
    with pytest.raises(SettingsError, match="Did you mean 'a100-40gb' or 'a100-80gb'"):
        gpu_memory("a100")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 * GIB),
        ("80 gib", 80 * GIB),
        ("24GB", 24 * 10**9),
        ("81559MiB", 81559 * MIB),
        ("1.5GiB", 3 * GIB // 2),
    ],
)
def test_a_size_has_a_unit(text: str, size: int):
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    "text", ["80", "80G", "GiB", "-1GiB", "0GiB", "80GiB of", "nanGiB", 400 * "9" + "GiB"]
)
def test_another_size_is_refused(text: str):
    with pytest.raises(SettingsError, match="such as 80GiB"):
        parse_memory(text)


def test_a_device_is_the_gpu_whose_name_it_has():
    assert is_device("h100", "NVIDIA H100 80GB HBM3")
    assert is_device("a100-80gb", "NVIDIA A100-SXM4-80GB")
    assert is_device("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3")
    assert not is_device("a100-40gb", "NVIDIA A100-SXM4-80GB")
    assert not is_device("l4", "NVIDIA L40S")
    assert not is_device("b200", "NVIDIA GB200")


def test_memories_are_those_of_the_published_specifications(model_configs):
    """The specifications state some sizes as rounded up to the next GiB."""
    specified = {
        "h100": "h100_sxm", "h200": "h200_sxm", "b200": "b200_sxm", "b300": "b300_sxm", "l40s": "l40s",
        "gb200": "gb200", "gb300": "gb300", "l4": "l4", "rtx-pro-6000": "rtx_pro_6000_server",
    }  # fmt: skip
    import yaml

    systems = model_configs.parent / "systems"
    if not systems.is_dir():
        pytest.skip("the specifications are not installed")
    for name, file in specified.items():
        system = yaml.safe_load((systems / f"{file}.yaml").read_text())
        memory = system["gpu"]["mem_capacity"]
        assert memory * 0.93 <= MEMORY_MIB[name] * MIB <= memory, name


def test_sizes_are_shown_in_the_unit_that_fits():
    assert (gib(80 * GIB), gib(-GIB), gib(9 * MIB)) == ("80.0 GiB", "-1.0 GiB", "9.0 MiB")
