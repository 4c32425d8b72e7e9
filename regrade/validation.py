"""Turning what pydantic says of wrong settings into one line for a person."""

from pydantic import ValidationError


def one_line(error: ValidationError) -> str:
    """Return what is wrong with some settings in one line."""
    problems = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        shown = (
            "" if problem["type"] in ("missing", "value_error") else f" (got {problem['input']!r})"
        )
        message = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{where}: {message}{shown}" if where else f"{message}{shown}")
    return "; ".join(problems)
