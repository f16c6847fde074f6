"""Rules in the words of this server's CEL library.

The library lacks four things of Kubernetes' CEL: `indexOf` and `lastIndexOf` on lists, whose names it has
for strings only; functions with optional results; macros that make maps; and a bound for `lists.range`.
Rules that use them are rewritten, token by token, into rules of the same meaning.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

SEARCHES: Final = ("indexOf", "lastIndexOf")
OPTIONAL: Final = ("validate", "named")
MAPS: Final = ("transformMap", "transformMapEntry")

_STRING: Final = (
    r"[rRbB]{0,2}(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\""
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
)
_RAW: Final = r"(?:[rR][bB]?|[bB][rR])(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|\"[^\"\n]*\")"
_TOKEN = re.compile(rf"{_RAW}|{_STRING}|//[^\n]*|[A-Za-z_]\w*|\s+|.", re.DOTALL)
_OPEN, _CLOSE = "([{", ")]}"
_LITERAL_CALLS: Final = frozenset({"duration", "timestamp", "matches", "find", "findAll"})


def checkable(text: str) -> str:
    """A rule for the type checker, where the two searches have names of their own."""
    found = _with_short_sums(tokens(text))
    return "".join(
        f"{token}_" if token in SEARCHES and _is_call(found, at) else token for at, token in enumerate(found)
    )


def runnable(text: str) -> str:
    """A rule for the running environment: names with a final `_` are functions of `library`."""
    return _rewritten(_with_short_sums(tokens(text)))


def tokens(text: str) -> list[str]:
    """The words, signs and strings of an expression; a comment becomes a space."""
    return [" " if token.startswith("//") else token for token in _TOKEN.findall(text)]


def adds(text: str) -> bool:
    """Whether there is a `+` outside of strings."""
    return "+" in tokens(text)


def literal_calls(text: str) -> Iterator[tuple[str, str]]:
    """Calls of functions that parse their text, with the texts that are literals."""
    found = [token for token in tokens(text) if not token.isspace()]
    for name, bracket, literal, end in zip(found, found[1:], found[2:], found[3:], strict=False):
        if name in _LITERAL_CALLS and bracket == "(" and end in (")", ",") and literal[-1] in "'\"":
            yield name, literal


# --- long sums ----------------------------------------------------------------------------------

# The parser of the library goes so deep, and one deeper for each `+` of a sum; that of Kubernetes goes 250.
_DEEPEST: Final = 32
_MOST_SUMMANDS: Final = 8
_AROUND_SUMS: Final = frozenset({",", "?", ":", "&", "|", "=", "<", ">", "in"})


def _with_short_sums(found: Sequence[str], depth: int = 0) -> list[str]:
    """The words with brackets in long sums, which are the same for numbers, texts and lists."""
    if depth > _DEEPEST or found.count("+") <= _MOST_SUMMANDS:
        return list(found)
    out: list[str] = []
    summands: list[list[str]] = [[]]
    at = 0
    while at < len(found):
        token = found[at]
        if token in _OPEN:
            end = _end(found, at)
            summands[-1] += [token, *_with_short_sums(found[at + 1 : end], depth + 1), *found[end : end + 1]]
            at = end + 1
            continue
        if token == "+" and any(not word.isspace() for word in summands[-1]):
            summands.append([])
        elif _ends_sum(found, at):
            out += [*_sum(summands), token]
            summands = [[]]
        else:
            summands[-1].append(token)
        at += 1
    return out + _sum(summands)


def _ends_sum(found: Sequence[str], at: int) -> bool:
    after, before = found[at + 1 : at + 2], found[max(0, at - 1) : at]
    if found[at] == "!":
        return list(after) == ["="]
    return found[at] in _AROUND_SUMS and not (found[at] == "?" and list(before) == ["."])


def _sum(summands: list[list[str]]) -> list[str]:
    while len(summands) > _MOST_SUMMANDS:
        parts = [summands[at : at + _MOST_SUMMANDS] for at in range(0, len(summands), _MOST_SUMMANDS)]
        summands = [["(", *_joined(part), ")"] for part in parts]
    return _joined(summands)


def _joined(summands: Sequence[Sequence[str]]) -> list[str]:
    joined: list[str] = []
    for summand in summands:
        joined += ["+", *summand] if joined else summand
    return joined


# --- calls --------------------------------------------------------------------------------------


def _rewritten(found: list[str]) -> str:
    out: list[str] = []
    at = 0
    while at < len(found):
        write = _REWRITES.get(found[at])
        if write is None or not _is_call(found, at):
            out.append(found[at])
            at += 1
            continue
        start = _bracket(found, at)
        end = _end(found, start)
        out.append(write(found[at], _arguments(found[start + 1 : end])))
        at = end + 1
    return "".join(out)


def _is_call(found: Sequence[str], at: int) -> bool:
    """Whether the name at `at` follows a dot and has arguments."""
    for index in range(at - 1, -1, -1):
        if not found[index].isspace():
            return found[index] == "." and _bracket(found, at) >= 0
    return False


def _bracket(found: Sequence[str], at: int) -> int:
    for index in range(at + 1, len(found)):
        if not found[index].isspace():
            return index if found[index] == "(" else -1
    return -1


def _end(found: Sequence[str], start: int) -> int:
    depth = 0
    for index in range(start, len(found)):
        depth += (found[index] in _OPEN) - (found[index] in _CLOSE)
        if depth == 0:
            return index
    return len(found)


def _arguments(found: Sequence[str]) -> list[str]:
    parts: list[list[str]] = [[]]
    depth = 0
    for token in found:
        depth += (token in _OPEN) - (token in _CLOSE)
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [_rewritten(part) for part in parts]


def _searching(name: str, arguments: Sequence[str]) -> str:
    # A function in Python cannot have a parameter of any type, but one that is a list of any type.
    return f"{name}_([{', '.join(f'dyn({argument})' for argument in arguments)}])"


def _own(name: str, arguments: Sequence[str]) -> str:
    return f"{name}_({', '.join(arguments)})"


def _optional(name: str, arguments: Sequence[str]) -> str:
    # The result in Python is a list of at most one; `[?0]` makes it optional.
    return f"{_own(name, arguments)}[?0]"


def _map_made(name: str, arguments: Sequence[str]) -> str:
    *before, last = arguments
    made = f"[dyn({before[0]}), dyn({last})]" if name == "transformMap" else last
    return f"transformList({', '.join([*before, made])}).{name}_()"


_REWRITES: Final[dict[str, Callable[[str, Sequence[str]], str]]] = {
    **dict.fromkeys(SEARCHES, _searching),
    **dict.fromkeys(OPTIONAL, _optional),
    **dict.fromkeys(MAPS, _map_made),
    "range": _own,
}
