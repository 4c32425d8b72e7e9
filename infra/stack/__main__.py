"""Run a team's stack on this machine, without Docker: `python -m infra.stack up | down | status | backup | restore`.

`up` starts Postgres, the servers of Prefect and MLflow, the viewer, and two workers, creates the deployments, and runs until Ctrl-C.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from infra.stack import (
    commands,
    growth,
    logs,
    parts,
    postgres,
    processes,
    prometheus,
    schema,
    users,
)
from infra.stack.layout import HOST, Layout, StackError, layout
from infra.stack.login import shown_login, write_client_variables
from infra.stack.processes import Known
from regrade.processes.metrics_endpoint import ports_of
from regrade.settings.errors import SettingsError

START_SECONDS = 300
"""Longest start of a part, in seconds."""
RESTARTS, RESTARTS_SECONDS = 5, 120.0
"""Most restarts of a part within this many seconds; the next restart stops the stack."""
READY = "the stack is ready"
"""Line that `up` prints when all parts are ready."""
STOPS = {"worker": (signal.SIGTERM, 30.0), "postgres": postgres.STOP}
TIDY_SECONDS = 60
"""Time between two looks at the sizes of the logs."""
USAGE = "usage: python -m infra.stack up | down | status | backup FILE | restore FILE [--replace]"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 done, 1 failed or not running, 2 bad usage."""
    try:
        match list(arguments):
            case ["up"]:
                return up(layout())
            case ["down"]:
                return down(layout())
            case ["status"]:
                return status(layout())
            case ["backup", file]:
                return commands.back_up(layout(), Path(file).absolute())
            case ["restore", file]:
                return commands.put_back(layout(), Path(file).absolute(), replace=False)
            case ["restore", file, "--replace"] | ["restore", "--replace", file]:
                return commands.put_back(layout(), Path(file).absolute(), replace=True)
            case _:
                print(USAGE, file=sys.stderr)
                return 2
    except (StackError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def up(place: Layout) -> int:
    """Start the stack and restart parts that end, until a stop signal."""
    supervisor, left = processes.read_state(place.state)
    if supervisor is not None and supervisor.process() is not None:
        print("the stack is already running")
        _show(place)
        return 0
    _stop(left)  # parts of a supervisor that was killed
    place.make()
    ports_of(prometheus.run_ports())  # fails early if the setting is invalid
    ports = [place.postgres_port, place.prefect_port, place.mlflow_port, place.view_port]
    if parts.monitoring(place) and place.prometheus_port is not None:
        ports.append(place.prometheus_port)
    for port in ports:
        _refuse_taken(port)
    processes.interrupt_on_stop_signals()
    running = _Running(place)
    try:
        _start_all(place, running)
        print(READY, flush=True)
        _show(place)
        running.watch()
    except KeyboardInterrupt:
        print("stopping")
    finally:
        for number in processes.STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _stop(running.parts)
        place.state.unlink(missing_ok=True)
    print("stopped")
    return 0


class _Running:
    """The started parts; each start updates the state file."""

    def __init__(self, place: Layout) -> None:
        self.place = place
        self.parts: list[Known] = []
        self.plans: dict[str, parts.Part] = {}
        self.ended: list[tuple[str, float]] = []
        self.supervisor = processes.known("supervisor", os.getpid(), place.logs / "stack.log")
        self._write()

    def start(self, part: parts.Part) -> None:
        print(f"starting {part.name}", flush=True)
        self.parts.append(self._process(part))
        self.plans[part.name] = part
        self._write()

    def wait(self, started: Sequence[parts.Part]) -> None:
        """Wait until the started parts are ready.

        Raises:
            StackError: If a part ends or takes too long.
        """
        deadline = time.monotonic() + START_SECONDS
        for part in started:
            while not part.ready():
                self.check()
                if time.monotonic() > deadline:
                    log = self.place.logs / f"{part.name}.log"
                    raise StackError(f"{part.name} is not ready after {START_SECONDS} s: {log}")
                time.sleep(0.2)

    def watch(self) -> None:
        """Restart parts that end, until a stop signal.

        Raises:
            StackError: If a part ends too often.
        """
        tidied = 0.0
        while True:
            time.sleep(1)
            if time.monotonic() - tidied > TIDY_SECONDS:
                try:
                    logs.tidy(self.place.logs)
                except OSError as error:  # a full disk, or a log that was deleted meanwhile
                    print(f"the logs are not tidied: {error}", flush=True)
                tidied = time.monotonic()
            for number, part in enumerate(self.parts):
                if part.process() is None:
                    self._start_again(number)

    def check(self) -> None:
        """Raise StackError if a part has ended."""
        for part in self.parts:
            if part.process() is None:
                raise processes.ended(part.name, Path(part.log))

    def _start_again(self, number: int) -> None:
        part, now = self.parts[number], time.monotonic()
        self.ended.append((part.name, now))
        times = [ended for name, ended in self.ended if name == part.name]
        if len(times) > RESTARTS and now - times[-1 - RESTARTS] < RESTARTS_SECONDS:
            raise processes.ended(part.name, Path(part.log))
        processes.reap()
        print(f"{part.name} ended unexpectedly, restarting it: {part.log}", flush=True)
        self.parts[number] = self._process(self.plans[part.name])
        self._write()

    def _process(self, part: parts.Part) -> Known:
        log = self.place.logs / f"{part.name}.log"
        return processes.start(part.name, part.command, part.environment, log)

    def _write(self) -> None:
        processes.write_state(self.place.state, self.supervisor, self.parts)


def _start_all(place: Layout, running: _Running) -> None:
    write_client_variables(place)
    user = users.worker_user()
    users.give_folders(place, user, parts.client_environment(place))
    postgres.make_cluster(place)
    database = parts.database(place)
    running.start(database)
    running.wait([database])
    postgres.make_databases(place)
    servers = parts.servers(place)
    schema.upgrade(place, {server.name: server for server in servers})
    for server in servers:
        running.start(server)
    running.wait(servers)
    print("creating the deployments", flush=True)
    _deploy(place)
    watching = parts.monitoring(place, user)
    if watching:
        prometheus.write_configuration(place, user)
    last = [parts.viewer(place, user), *watching, *parts.workers(place, user)]
    for part in last:
        running.start(part)
    running.wait(last)


def _deploy(place: Layout) -> None:
    command, log = [sys.executable, "-m", "regrade.cli.main", "deploy"], place.logs / "deploy.log"
    deploying = processes.spawn(command, parts.client_environment(place), log, session=False)
    try:
        if deploying.wait():
            raise processes.ended("regrade deploy", log)
    finally:
        deploying.kill()


def down(place: Layout) -> int:
    """Stop the processes that `up` started, and no others."""
    supervisor, left = processes.read_state(place.state)
    if supervisor is None:
        print("the stack is not running")
        return 0
    if supervisor.process() is not None:
        processes.end(supervisor, signal.SIGTERM, 150)
    _stop(left)
    place.state.unlink(missing_ok=True)
    print("stopped")
    return 0


def status(place: Layout) -> int:
    """Print the state of each part, and the sizes of what grows."""
    supervisor, known = processes.read_state(place.state)
    runs = supervisor is not None and supervisor.process() is not None
    if runs:
        _show(place)
        for part in known:
            print(f"  {part.name:<12} {'runs' if part.process() else 'ended'}  {part.log}")
        print()
    else:
        print("the stack is not running")
    if place.home.exists():
        growth.show(place)
    return 0 if runs else 1


def _stop(known: Sequence[Known]) -> None:
    for part in reversed(known):  # workers first, the database last
        stop_signal, seconds = STOPS.get(part.name.split("-")[0], (signal.SIGTERM, 20.0))
        processes.end(part, stop_signal, seconds)


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise StackError(
                f"Port {port} of {HOST} is taken ({error.strerror}). Set REGRADE_PREFECT_PORT, "
                "REGRADE_MLFLOW_PORT, REGRADE_VIEW_PORT, REGRADE_POSTGRES_PORT or REGRADE_PROMETHEUS_PORT to a free port."
            ) from error


def _runs(place: Layout) -> str:
    """Return the address of MLflow's list of runs, with the accuracies as columns."""
    from regrade.settings.errors import TrackingError  # noqa: PLC0415 - `make stack-down` needs none of these
    from regrade.tracking.run_list import prepared_list  # noqa: PLC0415

    try:
        return prepared_list(place.mlflow_url) or place.mlflow_url
    except TrackingError:
        return f"{place.mlflow_url}/?workflowType=machine_learning"


def _show(place: Layout) -> None:
    metrics = "not installed (infra/prometheus.sh)"
    if place.prometheus_port is None:
        metrics = "off"
    elif parts.monitoring(place):
        metrics = f"{place.prometheus_url}, dashboards for Grafana in infra/grafana"
    print(
        f"""
  Prefect   {place.prefect_url}, login: {shown_login(place)}
  MLflow    {_runs(place)}
  answers   {place.view_url} shows {place.answers}
  metrics   {metrics}
  Postgres  {HOST}:{place.postgres_port}, passwords in {place.passwords}
  logs      {place.logs}
  stop      Ctrl-C in the terminal of `make stack`, or `make stack-down`

  for `regrade` in another shell:  set -a; . {place.login}; set +a
""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
