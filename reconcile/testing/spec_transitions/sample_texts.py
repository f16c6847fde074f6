"""Texts that a schema admits: of its format, of its pattern, or any."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from reconcile.embedded.schema.patterns import PatternError, compile_pattern, searcher

LONG: Final = 300
"""Characters of a text without a limit: more than a name, a label or a host name may have."""
_FORMATS: Final[Mapping[str, Sequence[str]]] = {
    "date-time": ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
    "datetime": ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
    "date": ("2026-01-01", "2026-02-01"),
    "duration": ("1m0s", "2m0s"),
    "email": ("a@example.com", "b@example.com"),
    "hostname": ("a.example.com", "b.example.com"),
    "uri": ("https://a.example.com", "https://b.example.com"),
    "ipv4": ("10.0.0.1", "10.0.0.2"),
    "ip": ("10.0.0.1", "10.0.0.2"),
    "ipv6": ("fd00::1", "fd00::2"),
    "cidr": ("10.0.0.0/24", "10.0.1.0/24"),
    "mac": ("00:00:5e:00:53:01", "00:00:5e:00:53:02"),
    "uuid": ("6f1d2c1e-0000-4000-8000-000000000001", "6f1d2c1e-0000-4000-8000-000000000002"),
    "byte": ("YQ==", "Yg=="),
}
_FAMILIAR: Final = (
    "a", "b", "1", "2", "1m", "2m", "1h", "2h", "A", "B", "a1", "b1", "10:00", "11:00", "a.example.com",
    "b.example.com", "https://a.example.com", "https://b.example.com", "example.com/a", "example.com/b",
    "a/b", "b/a", "a:1", "b:1", "2026-01-01", "2026-02-01", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z",
    "1.0.0", "1.0.1", "v1.0.0", "v1.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.0/24", "10.0.1.0/24", "10%", "20%",
    "1Gi", "2Gi", "* * * * *", "0 * * * *", "a@example.com", "b@example.com",
)  # fmt: skip
"""Texts that common patterns admit, so that values read as a person would write them."""
_LENGTHS: Final = (4_096, 1_000, 300, 253, 128, 100, 64, 63, 40, 32, 16)


def texts_of(schema: Mapping[str, Any]) -> Sequence[str]:
    """Two different texts that the schema admits, fewer if it has no more or none can be found."""
    least, most = schema.get("minLength") or 0, schema.get("maxLength")
    if known := _FORMATS.get(schema.get("format") or ""):
        return known
    pattern = schema.get("pattern")
    if pattern is None:
        size = max(least, 1)
        return () if most is not None and size > most else ("a" * size, "b" * size)
    return _matching(pattern, least, most)


def long_text(schema: Mapping[str, Any]) -> str | None:
    """A text as long as the schema admits, of `LONG` characters without a limit; None if none is found."""
    if schema.get("format") in _FORMATS:
        return None
    most = schema.get("maxLength")
    if schema.get("pattern") is None:
        return "x" * min(LONG if most is None else most, _LENGTHS[0])
    admits = _matcher(schema["pattern"])
    lengths = [most, *(length for length in _LENGTHS if length < most)] if most else _LENGTHS[2:]
    return next((text for length in lengths for text in ("x" * length, "1" * length) if admits(text)), None)


def admits_text(schema: Mapping[str, Any], text: str) -> bool:
    """Whether the keywords of a schema admit a text; with a known format, only those of `texts_of`."""
    if schema.get("format") in _FORMATS:
        return text in texts_of(schema)
    most, pattern = schema.get("maxLength"), schema.get("pattern")
    fits = (schema.get("minLength") or 0) <= len(text) and (most is None or len(text) <= most)
    return fits and (pattern is None or _matcher(pattern)(text))


def unmatched_text(pattern: str) -> str | None:
    """A text that the pattern does not admit; None if none is found."""
    admits = _matcher(pattern)
    return next((text for text in ("", " ", "!", "a b", "\N{SNOWMAN}", "A_") if not admits(text)), None)


@lru_cache(maxsize=512)
def _matching(pattern: str, least: int, most: int | None) -> Sequence[str]:
    admits = _matcher(pattern)

    def fits(text: str) -> bool:
        return least <= len(text) and (most is None or len(text) <= most) and admits(text)

    found = [text for text in _FAMILIAR if fits(text)][:2]
    return tuple(found) if len(found) == 2 else tuple([*found, *_searched(pattern, fits, found)][:2])


def _searched(pattern: str, fits: Callable[[str], bool], known: Sequence[str]) -> Iterator[str]:
    """Texts that hypothesis finds, the same ones each time; none for a pattern that it cannot read."""
    from hypothesis import HealthCheck, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import HypothesisException

    quiet = settings(
        derandomize=True, database=None, max_examples=200, deadline=None, suppress_health_check=[*HealthCheck]
    )
    alphabet = st.characters(min_codepoint=32, max_codepoint=126)
    taken = list(known)
    try:
        texts = st.from_regex(pattern, alphabet=alphabet)
        while len(taken) < 2:
            text = find(texts, lambda text: fits(text) and text not in taken, settings=quiet)
            taken.append(text)
            yield text
    except (HypothesisException, re.error):
        return


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a match, by the engine of the server; a pattern that it refuses admits none."""
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        return lambda text: False
    return searcher(compiled) if compiled is not None else lambda text: True
