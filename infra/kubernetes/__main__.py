"""Print the base job template of the `gpu` pool as JSON: `python -m infra.kubernetes > gpu-pool.json`."""

import json
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).with_name("gpu-job.yaml")


def template() -> dict[str, Any]:
    """Return the template in the form that Prefect expects."""
    return dict(yaml.safe_load(TEMPLATE.read_text()))


if __name__ == "__main__":
    print(json.dumps(template(), indent=2))
