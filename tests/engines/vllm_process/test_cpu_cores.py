"""Cores of the processes of a split model; test_engine.py has real engines with two parts and two copies."""

import os
from pathlib import Path

import pytest

from regrade.engines.vllm_process import cpu_cores
from regrade.engines.vllm_process.cpu_cores import VARIABLE, binding, share_cores


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


def test_cores_are_shared_only_where_vllm_has_too_few_nodes_and_the_user_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(cpu_cores, "_NODES", tmp_path)
    (tmp_path / "node0").mkdir()
    (tmp_path / "node1").mkdir()
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)

    share_cores(2, 4)
    assert VARIABLE not in os.environ

    share_cores(3, 1)
    assert os.environ[VARIABLE] == binding(sorted(os.sched_getaffinity(0)), 3)

    monkeypatch.setenv(VARIABLE, "nobind")
    share_cores(3, 1)
    assert os.environ[VARIABLE] == "nobind"
