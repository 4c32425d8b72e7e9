"""The login of the stack's Prefect server, in a file that only the owner can read: `.env` in the folder of the stack.

`python -m infra.stack.login` prints the variables of the servers for the shell (infra/ui.sh), `--shown` what a person types.
"""

import re
import shlex
import sys

from infra.stack.layout import FOR_OWNER, Layout, StackError, layout
from regrade.orchestration.server import LOOPBACK, new_login, protection

NAME = "PREFECT_API_AUTH_STRING"
"""Variable with the login: Prefect's clients read it."""


def read_login(place: Layout) -> str:
    """Return the login. The first call creates it.

    Raises:
        StackError: If the file exists without a login.
    """
    if not place.login.exists():
        _write(place, new_login())
    found = re.search(rf"^{NAME}=(\S+:\S+)$", place.login.read_text(), re.MULTILINE)
    if found is None:
        raise StackError(
            f"{place.login} has no line `{NAME}=name:password`. Delete the file for a new login."
        )
    return found[1]


def shown_login(place: Layout) -> str:
    """Return the login for a person to type into the page; where no terminal would show it, such as in a log, its place."""
    return read_login(place) if sys.stdout.isatty() else f"the value of {NAME} in {place.login}"


def write_client_variables(place: Layout) -> None:
    """Write the addresses of the servers, which may have changed since the last start, and the login."""
    _write(place, read_login(place))


def mlflow_protection(port: int) -> dict[str, str]:
    """Return the variables of an MLflow server on this machine that answers only its own pages (infra/mlflow)."""
    addresses = [f"{name}:{port}" for name in LOOPBACK.split(",")]
    return {
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(addresses),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": ",".join(f"http://{name}" for name in addresses),
    }


def _write(place: Layout, login: str) -> None:
    lines = [
        f"PREFECT_API_URL={place.prefect_url}/api",
        f"{NAME}={login}",
        f"MLFLOW_TRACKING_URI={place.mlflow_url}",
        f"REGRADE_VIEW_URL={place.view_url}",
    ]
    new = place.login.with_name(".env.new")
    new.unlink(missing_ok=True)
    with open(new, "x", opener=FOR_OWNER) as file:
        file.writelines(f"{line}\n" for line in lines)
    new.replace(place.login)


def _export(place: Layout) -> None:
    place.make()
    write_client_variables(place)
    login = read_login(place)
    variables = protection(place.prefect_port, login) | mlflow_protection(place.mlflow_port)
    for name, value in variables.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--shown"]:
        print(shown_login(layout()))
    else:
        _export(layout())
