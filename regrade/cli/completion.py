"""`regrade completion`."""

import sys
from typing import Literal

from cyclopts.completion.detect import ShellDetectionError

from regrade.cli.command_list import command
from regrade.settings.errors import SettingsError

Shell = Literal["bash", "zsh", "fish"]


@command(group="This installation")
def completion(shell: Shell | None = None, *, install: bool = False) -> None:
    """Print or install the completion of a shell.

    Prints a script that completes commands, options and names with the Tab key.

    Args:
        shell: The shell; the one that runs this command if not given.
        install: Write the script into the folder in which the shell looks for it, add it to the start-up file of bash, and print the path.

    Examples:
        completion
        completion bash --install
    """
    from regrade.cli.commands import command_line  # noqa: PLC0415 - it names this command

    app = command_line(full=True)
    try:
        script = (
            f"{app.install_completion(shell=shell)}\n"
            if install
            else app.generate_completion(shell=shell)
        )
    except ShellDetectionError as error:
        raise SettingsError(
            "It is not known which shell runs here. Name it, such as `regrade completion bash`."
        ) from error
    sys.stdout.write(script)
