"""What the page of a flow run says of an error."""

import logging
import sys

from flows.telling import without_traceback
from regrade.errors import SettingsError


def record_of(error: Exception, message: str) -> logging.LogRecord:
    try:
        raise error
    except type(error):
        return logging.LogRecord("prefect", logging.ERROR, "", 0, message, (), sys.exc_info())


def test_an_error_raised_on_purpose_is_one_line():
    record = record_of(SettingsError("choose a benchmark"), "Encountered exception")
    assert without_traceback(record)
    assert logging.Formatter().format(record) == "SettingsError: choose a benchmark"


def test_it_is_not_told_again():
    record = record_of(SettingsError("x"), "Engine execution exited with unexpected exception")
    assert not without_traceback(record)


def test_an_error_that_nobody_meant_keeps_its_traceback():
    record = record_of(KeyError("x"), "Encountered exception")
    assert without_traceback(record)
    assert "Traceback" in logging.Formatter().format(record)
