"""The loggers of the library."""

import logging

import pytest

from informers import get_logger


def test_bound_values_travel_as_attributes_of_the_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("informers.test").bind(controller="sites").info("started", workers=3)
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("informers.test", "started")
    assert (vars(record)["controller"], vars(record)["workers"]) == ("sites", 3)


def test_a_value_named_as_something_of_the_record_does_not_break_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("informers.test").info("made", name="web", created=2, message="a", args=(1,))
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("informers.test", "made")
    values = vars(record)
    assert (values["name_"], values["created_"], values["message_"], values["args_"]) == ("web", 2, "a", (1,))


def test_an_exception_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        get_logger("informers.test").exception("failed", module="m")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError
    assert vars(record)["module_"] == "m"
