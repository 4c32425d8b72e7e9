"""Stopping a stack: after its supervisor was killed, and with no effect on other processes."""

import subprocess
from typing import Any

import pytest

from tests.infra.running_stack import Stack, living

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]


def test_a_start_after_the_supervisor_was_killed_goes_on_with_what_was_kept(
    stack: Stack, evaluated: dict[str, Any]
):
    before = stack.everything()
    kept = stack.metrics("accuracy/demo-arithmetic")
    assert stack.supervisor is not None
    stack.supervisor.kill()
    stack.supervisor.wait()
    stack.start()
    assert not living(before)
    assert stack.flow_run(evaluated["id"])["state_type"] == "COMPLETED"
    assert stack.metrics("accuracy/demo-arithmetic") == kept != []


def test_stopping_ends_exactly_what_was_started(stack: Stack):
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        ours = stack.everything()
        stopped = stack.command("down")
        assert stopped.code == 0, stopped.err
        assert not living(ours)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert stack.supervisor is not None
    assert stack.supervisor.wait(30) == 0, stack.output.read_text()
    assert "stopped" in stack.output.read_text()
    assert stack.command("status").code == 1
    assert stack.command("down").out.strip() == "the stack is not running"
