"""RE2 by way of CEL's `matches`, for patterns that would keep Python's engine busy for ever."""

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec
from cel_expr_python import cel


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    return cel.NewEnv(variables={"text": cel.Type.STRING})


def re2_search(pattern: str) -> Callable[[str], bool] | None:
    """Whether a pattern occurs in a text, in time linear in it; None for a pattern that RE2 refuses."""
    literal = msgspec.json.encode(pattern).decode()
    try:
        program = _environment().compile(f"text.matches({literal})")
        refused = program.eval(data={"text": ""}).type() == cel.Type.ERROR
    except RuntimeError:
        return None
    return None if refused else lambda text: program.eval(data={"text": text}).value() is True


@lru_cache(maxsize=1)
def _finding_environment() -> cel.Env:
    config = cel.NewEnvConfigFromYaml("name: finding\nextensions:\n- name: optional\n- name: regex\n")
    return cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})


@lru_cache(maxsize=1)
def _finder() -> cel.Expression:
    return _finding_environment().compile("regex.extractAll(text, pattern)")


_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P<\w+>", re.DOTALL)


def re2_find_all(text: str, pattern: str) -> list[str]:
    """All places where a pattern occurs, in time linear in the text.

    Raises:
        ValueError: RE2 refuses the pattern.
    """
    whole = _GROUP.sub(lambda found: "(?:" if found[0].startswith("(") else found[0], pattern)
    result = _finder().eval(data={"text": text, "pattern": whole})
    if result.type() == cel.Type.ERROR:
        raise ValueError(str(result.value()).partition(": ")[2])
    return list(result.plain_value())
