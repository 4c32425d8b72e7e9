r"""Manifests for Kubernetes, as JSON.

    python -m infra.kubernetes > gpu-pool.json                      # base job template of the pool `gpu`
    python -m infra.kubernetes --machines 4 --set image=registry.example/regrade-gpu -- \
        --model org/model --benchmark gsm8k --answers hf://datasets/org/answers | kubectl apply --filename -

The second is an indexed Job: each of its pods runs `regrade evaluate --share auto` with the options after `--`, without a
Prefect server. `--set` sets a variable of the template.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from regrade.jobs.shares import MACHINES_VARIABLE

TEMPLATE = Path(__file__).with_name("gpu-job.yaml")
RESTARTS = 5
"""Times that a machine is started again after its pod failed, or its node went away."""


def template() -> dict[str, Any]:
    """Return the template in the form that Prefect expects."""
    return dict(yaml.safe_load(TEMPLATE.read_text()))


def indexed_job(
    machines: int, options: Sequence[str], variables: Mapping[str, object]
) -> dict[str, Any]:
    """Return a Job with a pod for each share of an evaluation.

    Args:
        machines: Number of pods that work at the same time.
        options: Options of `regrade evaluate`.
        variables: Values of the template's variables, in place of their defaults.
    """
    from prefect.utilities.templating import apply_values  # noqa: PLC0415 - takes a second

    known = template()["variables"]["properties"]
    if unknown := sorted(variables.keys() - known.keys()):
        raise SystemExit(f"unknown variable '{unknown[0]}'; known: {', '.join(sorted(known))}")
    values = {name: entry["default"] for name, entry in known.items() if "default" in entry}
    command = ["regrade", "evaluate", "--share", "auto", *options]
    values |= {"name": "regrade", **variables, "command": command}
    job = dict(apply_values(template()["job_configuration"]["job_manifest"], values))
    pod = job["spec"]["template"]["spec"]
    for name in ("parallelism", "completions"):  # in the wrong place, for Prefect's worker
        del pod[name]
    (container,) = pod["containers"]
    container["name"] = "regrade"
    container["env"].append({"name": MACHINES_VARIABLE, "value": str(machines)})
    del job["spec"]["backoffLimit"]
    job["spec"] |= {
        "completionMode": "Indexed",
        "completions": machines,
        "parallelism": machines,
        # For each machine: one on a broken node does not end the others.
        "backoffLimitPerIndex": RESTARTS,
    }
    return job


def main() -> None:
    """Print a manifest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", type=int, help="print an indexed Job with this many pods")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("options", nargs="*", help="options of `regrade evaluate`, after `--`")
    arguments = parser.parse_args()
    if arguments.machines is None:
        print(json.dumps(template(), indent=2))
        return
    if arguments.machines < 1 or not arguments.options:
        parser.error("an indexed Job needs at least one machine, and options of `regrade evaluate`")
    pairs = [text.partition("=") for text in arguments.set]
    variables = {name: yaml.safe_load(value) for name, _, value in pairs}
    print(json.dumps(indexed_job(arguments.machines, arguments.options, variables), indent=2))


if __name__ == "__main__":
    main()
