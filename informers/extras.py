"""Which extra of reconcile-runtime a missing library belongs to."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

EXTRAS: Final[Mapping[str, str]] = {
    "cattrs": "testing",
    "cel_expr_python": "embedded",
    "click": "cli",
    "cryptography": "embedded",
    "google": "embedded",
    "hypothesis": "testing",
    "opentelemetry": "tracing",
    "pytest": "testing",
    "pytest_asyncio": "testing",
    "re2": "embedded",
    "rich": "cli",
    "semver": "embedded",
    "trustme": "embedded",
    "zstandard": "zstd",
}
"""By the package that is imported; where two extras have it, the one that is asked for by an import alone."""


# A library without a wheel for a new Python is missing there alone.
PYTHON: Final = f"Python {sys.version_info.major}.{sys.version_info.minor}"


def extra_of(error: ModuleNotFoundError) -> str:
    """The extra of a library that is missing; empty for any other module."""
    return EXTRAS.get((error.name or "").partition(".")[0], "")


@contextmanager
def extras_named() -> Iterator[None]:
    """Have a ModuleNotFoundError for a library of an extra say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not (extra := extra_of(error)):
            raise
        raise ModuleNotFoundError(
            f"{error.name} is not installed for {PYTHON}: pip install 'reconcile-runtime[{extra}]'",
            name=error.name,
        ) from error
