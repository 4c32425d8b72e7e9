"""Prometheus in the stack, if its program is there: it scrapes the runs of the gpu worker and the servers of vLLM that are named."""

import os
import pwd
import shutil
from pathlib import Path

import yaml

from infra.stack.layout import HOST, ROOT, Layout
from regrade.processes.metrics_endpoint import PORT_VARIABLE, ports_of

UNPACKED = ROOT / ".prometheus/usr/bin/prometheus"
"""Program of Debian's package, as infra/prometheus.sh unpacks it."""
RUN_PORTS = "9464-9467"
"""Ports for the metrics of runs; the pool `gpu` has up to four runs at a time."""
RETENTION = "30d"
INTERVAL = "15s"


def program() -> Path | None:
    """Return Prometheus' program, or None if it is not installed."""
    on_path = shutil.which("prometheus")
    if on_path:
        return Path(on_path)
    return UNPACKED if os.access(UNPACKED, os.X_OK) else None


def run_ports() -> str:
    """Return the ports for the metrics of runs, as set by the caller."""
    return os.environ.get(PORT_VARIABLE) or RUN_PORTS


def configuration(layout: Layout, *, interval: str = INTERVAL) -> str:
    """Return Prometheus' configuration.

    Args:
        layout: Folders of the stack; further targets are files in its folder `targets`.
        interval: Time between two scrapes.
    """
    targets = [f"{HOST}:{port}" for port in ports_of(run_ports())]
    jobs = [
        {
            "job_name": "regrade",
            "static_configs": [{"targets": targets}],
            "file_sd_configs": [{"files": [str(layout.targets / "regrade-*.yaml")]}],
        },
        {"job_name": "vllm", "file_sd_configs": [{"files": [str(layout.targets / "vllm-*.yaml")]}]},
    ]
    return yaml.safe_dump({"global": {"scrape_interval": interval}, "scrape_configs": jobs})


def write_configuration(layout: Layout, user: pwd.struct_passwd | None) -> None:
    """Write the configuration, and create the folders of Prometheus for the user who runs it."""
    layout.prometheus_config.write_text(configuration(layout))
    layout.prometheus_config.chmod(0o644)
    for folder in (layout.prometheus, layout.targets):
        folder.mkdir(exist_ok=True)
    if user is not None:
        os.chown(layout.prometheus, user.pw_uid, user.pw_gid, follow_symlinks=False)


def command(layout: Layout, binary: Path) -> list[str]:
    """Return the command that starts Prometheus on loopback; pages of other origins must not read it."""
    origin = layout.prometheus_url.replace(".", r"\.")
    return [
        str(binary),
        f"--config.file={layout.prometheus_config}",
        f"--storage.tsdb.path={layout.prometheus}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={HOST}:{layout.prometheus_port}",
        f"--web.cors.origin={origin}",
    ]
