"""Memory that was freed is given back where the C library can be asked to; elsewhere nothing fails."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from informers import freed_memory


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    freed_memory._trim.cache_clear()
    yield
    freed_memory._trim.cache_clear()


def test_glibc_is_asked_to_give_back_all_that_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=asked.append))
    freed_memory.give_back()
    assert asked == [0]


def no_handle(_: None) -> Any:
    raise TypeError("bad argument type for built-in operation")


@pytest.mark.parametrize("library", [lambda _: SimpleNamespace(), no_handle])
def test_another_c_library_is_left_alone(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library)
    freed_memory.give_back()
