"""Cores of the processes of a split model; test_engine.py has real engines with two parts and two copies."""

import os
from types import SimpleNamespace

import pytest

from regrade.engines.vllm_process.cpu import (
    CORES_VARIABLE,
    SIMULATED,
    binding,
    one_per_core,
    share_cores,
)


@pytest.mark.parametrize(
    ("cores", "processes", "expected"),
    [
        ([0, 1], 2, "0|1"),
        ([0, 1], 4, "0|1|0|1"),
        ([3], 2, "3|3"),
        ([0, 1, 2, 3, 8, 9], 2, "0,1,2|3,8,9"),
        (range(7), 3, "0,1|2,3|4,5"),
    ],
)
def test_each_process_gets_as_many_cores(cores, processes, expected):
    assert binding(cores, processes) == expected


def cpu(number: int, core: int) -> SimpleNamespace:
    return SimpleNamespace(id=number, physical_core=core)


def test_of_a_core_with_two_hardware_threads_one_is_used():
    cpus = [cpu(0, 0), cpu(4, 0), cpu(1, 1), cpu(5, 1), cpu(2, 2), cpu(3, 3)]

    assert one_per_core(cpus) == [2, 3, 4, 5]


def test_cores_are_shared_only_where_vllm_has_too_few_nodes_and_the_user_has_not(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv(CORES_VARIABLE, "")
    monkeypatch.delenv(CORES_VARIABLE)
    monkeypatch.delenv(SIMULATED, raising=False)
    two = [cpu(0, 0), cpu(1, 1)]

    share_cores(2, 4, nodes=2, cpus=two)
    assert CORES_VARIABLE not in os.environ

    share_cores(3, 1, nodes=2, cpus=two)
    assert os.environ.pop(CORES_VARIABLE) == "0|1|0"

    threads = [cpu(0, 0), cpu(2, 0), cpu(1, 1), cpu(3, 1)]
    share_cores(2, 1, nodes=1, cpus=threads)
    assert os.environ.pop(CORES_VARIABLE) == "2|3"

    share_cores(2, 2, nodes=1, cpus=threads)  # fewer cores than processes
    assert os.environ[CORES_VARIABLE] == "0|1|2|3"

    monkeypatch.setenv(CORES_VARIABLE, "nobind")
    share_cores(3, 1, nodes=2, cpus=two)
    assert os.environ.pop(CORES_VARIABLE) == "nobind"

    monkeypatch.setenv(SIMULATED, "1")  # vLLM shares the cores of one node itself
    share_cores(2, 1, nodes=1, cpus=two)
    assert CORES_VARIABLE not in os.environ


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_vllm_knows_the_cpus_that_this_process_may_use():
    from regrade.engines.vllm_process import internals

    nodes, cpus = internals.cpus()

    assert nodes >= 1
    assert {cpu.id for cpu in cpus} == os.sched_getaffinity(0)
    assert set(one_per_core(cpus)) <= {cpu.id for cpu in cpus}
