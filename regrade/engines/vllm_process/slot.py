"""Owner side: the engine slot, by which engines that need the same GPUs run one after the other."""

import hashlib
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime

from regrade.engines.base import WAITING
from regrade.engines.vllm_process.environment import number_in
from regrade.processes.slots import Slot, machine_folder, take_slot

SLOTS_VARIABLE = "REGRADE_ENGINE_SLOTS"
"""Environment variable with the number of engines that may run at the same time; `regrade worker` sets 1. Empty: any
number."""
_DEVICES = "CUDA_VISIBLE_DEVICES"
"""Environment variable with the GPUs of an engine. Engines wait only for others with the same value."""
_FLOW_RUN = "PREFECT__FLOW_RUN_ID"
"""Environment variable that Prefect sets in the process of a flow run."""


def engine_slots() -> int | None:
    """Return the number of engines that may run at the same time; None: any number.

    Raises:
        SettingsError: If it is not a whole number above 0.
    """
    return number_in(SLOTS_VARIABLE, 1, math.inf, "a whole number above 0")


def take_engine_slot(model: str, on_progress: Callable[[str], None]) -> Slot | None:
    """Wait for an engine slot and return it; None if the number of engines is not limited.

    Args:
        model: Model of the engine, shown to waiting processes.
        on_progress: Called with a stage that begins with `WAITING`, if no slot is free.

    Raises:
        SettingsError: As `engine_slots`.
        OperationError: If another user owns the folder of the slots.
    """
    slots = engine_slots()
    if slots is None:
        return None
    devices = os.environ.get(_DEVICES, "")
    folder = machine_folder("engines-" + hashlib.sha256(devices.encode()).hexdigest()[:12])
    run = os.environ.get(_FLOW_RUN)
    process = f"flow run {run}" if run else f"process {os.getpid()}"
    holder = f"'{model}' ({process}, since {datetime.now(UTC):%H:%M} UTC)"
    return take_slot(
        folder,
        slots,
        holder,
        lambda holders: on_progress(
            f"{WAITING} the engine of {holders or 'another process'} to end"
        ),
    )
