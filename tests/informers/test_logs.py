"""The loggers of the library."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import get_logger


def test_bound_values_travel_as_attributes_of_the_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("informers.test").bind(controller="sites").info("started", workers=3)
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("informers.test", "started controller=sites workers=3")
    said = vars(record)
    assert (said["event"], said["controller"], said["workers"]) == ("started", "sites", 3)


def test_a_value_named_like_a_record_attribute_does_not_break_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("informers.test").info("made", name="web", created=2, message="a", args=(1,))
    (record,) = caplog.records
    assert (record.name, vars(record)["event"]) == ("informers.test", "made")
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


@pytest.mark.rule("told-logging")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("default/web", "default/web"),
        ("ValueError: no", '"ValueError: no"'),
        ("", '""'),
        ('a"b', r'"a\"b"'),
        ("two\nlines", r'"two\nlines"'),
        ("a=b", '"a=b"'),
        ("grün", "grün"),
        (3, "3"),
        (None, "None"),
        (["a b", "c"], "['a b', 'c']"),
        ({"a": 1}, "{'a': 1}"),
        ("100%", "100%"),
    ],
)
def test_a_message_is_complete_on_its_own_with_each_value(
    value: Any, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("informers.test").info("50 % made", value=value)
    (record,) = caplog.records
    assert logging.Formatter("%(message)s").format(record) == f"50 % made value={shown}"
    assert (vars(record)["event"], vars(record)["value"]) == ("50 % made", value)


@given(st.text(), st.dictionaries(st.text(min_size=1), st.text(), max_size=3))
def test_every_text_and_every_name_of_a_value_can_be_logged(words: str, values: dict[str, str]) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("informers.hypothesis")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        values = {name: value for name, value in values.items() if name not in ("event", "self")}
        get_logger("informers.hypothesis").bind(**values).info(words)
    finally:
        logger.removeHandler(handler)
    (record,) = records
    assert record.getMessage().startswith(words)
    assert all(name in record.getMessage() for name in values)


def test_a_record_names_the_line_that_logged_it(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("informers.test").bind(key="a")
    with caplog.at_level(logging.INFO):
        log.info("one")
        log.log(logging.WARNING, "two")
        try:
            raise ValueError("no")
        except ValueError:
            log.exception("three")
    assert {(one.filename, one.funcName) for one in caplog.records} == {
        ("test_logs.py", "test_a_record_names_the_line_that_logged_it")
    }


def test_a_record_below_the_level_is_not_formatted(caplog: pytest.LogCaptureFixture) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("nobody reads it")

    with caplog.at_level(logging.INFO):
        get_logger("informers.test").debug("made", value=Costly())
    assert caplog.records == []
