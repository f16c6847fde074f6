"""Values of fields as short texts to be shown, without what must stay secret.

Hidden are the values of Secrets that a run has read, fields that a class declares secret, and fields whose
name says so, in text and in lists of `name` and `value` too.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from attrs import frozen

from informers.apimachinery.json_pointers import pointer_below
from reconcile.client.redaction import copies_object
from reconcile.models.secret_fields import is_within

HIDDEN: Final = "<hidden>"
LONGEST: Final = 200
"""Characters of a value that are shown."""
_LONGEST_READ: Final = 16_384
"""Characters of a value that are searched for secrets; of a longer one only the size is shown."""
_ABSENT: Final = ""

Step: TypeAlias = str | int
Steps: TypeAlias = tuple[Step, ...]

_NAME: Final = (
    r"passw(?:or)?d|passphrase|passwd|pwd|secret|token|credential|authorization|bearer|cookie|"
    r"(?:api|access|private|signing|encryption|account|shared)[-_. ]?key|dsn|connection[-_. ]?string"
)
_says_so: Final = re.compile(rf"{_NAME}|\.(?:key|p12|pfx|jks)$", re.IGNORECASE).search
_is_about_one: Final = re.compile(
    r"(?:secret|token|credential)s?(?:key)?(?:name|names|ref|refs|selector|namespace)"
    r"|.*(?:seconds|secrets|audiences?)|automountserviceaccounttoken",
    re.IGNORECASE,
).fullmatch
"""Names of what only refers to a secret, or counts something of it."""
# Bounded, and what opens without an end is hidden to the end of its line: the text may be hostile.
_pairs: Final = re.compile(
    rf"""((?:{_NAME})[\w.-]{{0,64}}\\*["']?[ \t]*[:=][ \t]*)"""
    r"""(\\*"(?:[^"\\]|\\.){0,1024}"|'[^'\n]{0,1024}'|\\*["'][^\n]*"""
    r"""|[|>][-+0-9]*[ \t]*(?:\n[ \t]+[^\n]*)+"""
    r"""|[^\s,;&"'}\]]+(?:[ \t]+[^\s,;&"'}\]=:]+)*)""",
    re.IGNORECASE,
)
_private_key: Final = re.compile(r"(-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----)(?:(?!-----END).)*", re.DOTALL)
_user_of_url: Final = re.compile(r"(://)[^/@\s]{1,512}@")


@frozen
class ShownValues:
    """Makes texts of values of one kind: `secret` are the paths that its class hides, `redact` hides more."""

    redact: Callable[[str], str] = str
    secret: frozenset[tuple[str, ...]] = frozenset()

    def text(self, steps: Steps, value: object, *, named: bool = False) -> str:
        """A value at a place as JSON; empty for none. It may be long.

        `named`: an element of a list around it has a `name` that tells of a secret.
        """
        if value is None:
            return _ABSENT
        if named or self._hides(steps):
            return _masked_whole(value)
        shown = msgspec.json.encode(self.masked(steps, value)).decode()
        return f"({len(shown)} characters)" if len(shown) > _LONGEST_READ else self.redact(shown)

    def _hides(self, steps: Steps) -> bool:
        names = tuple(step for step in steps if isinstance(step, str))
        return any(map(tells_of_secret, names)) or any(is_within(names, hidden) for hidden in self.secret)

    def masked(self, steps: Steps, value: Any) -> Any:
        """A value at a place, with everything hidden within it replaced, in texts too."""
        if isinstance(value, Mapping):
            named = names_secret(value)
            return {
                name: (
                    HIDDEN
                    if _can_be_secret(inner) and (self._hides((*steps, name)) or (named and name == "value"))
                    else self.masked((*steps, name), inner)
                )
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.masked((*steps, place), inner) for place, inner in enumerate(value)]
        if isinstance(value, str):
            # Before it is written as JSON: a quote or a line in it would be escaped, and not be found.
            if len(value) > _LONGEST_READ:
                return f"({len(value)} characters)"
            return without_pairs(self.redact(value))
        return value


def _masked_whole(value: object) -> str:
    return msgspec.json.encode(HIDDEN if _can_be_secret(value) else value).decode()


def _can_be_secret(value: object) -> bool:
    """Whether a value may be a secret itself: a switch is none."""
    return value is not None and not isinstance(value, bool) and value not in ("", [], {})


def tells_of_secret(name: str) -> bool:
    """Whether a field of that name has a secret for a value."""
    return copies_object(name) or (_says_so(name) is not None and _is_about_one(name) is None)


def names_secret(element: object) -> bool:
    """Whether an element such as `{name: DB_PASSWORD, value: ...}` has a secret for a value."""
    if not isinstance(element, Mapping) or "value" not in element:
        return False
    names = (element.get("name"), element.get("key"))
    return any(isinstance(name, str) and tells_of_secret(name) for name in names)


def without_pairs(text: str) -> str:
    """A text in which the values of `password: ...` and the like are hidden, and who logs in to a URL."""
    if "@" in text:
        text = _user_of_url.sub(rf"\1{HIDDEN}@", text)
    if "PRIVATE KEY" in text:
        text = _private_key.sub(rf"\1{HIDDEN}", text)
    return _pairs.sub(_hide_pair, text) if _says_so(text) else text


def _hide_pair(found: "re.Match[str]") -> str:
    name = re.split(r"[^\w.-]", found[1], maxsplit=1)[0]
    return found[0] if _is_about_one(name) is not None else f"{found[1]}{HIDDEN}"


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def path_text(steps: Iterable[Step]) -> str:
    """A place as it is read: `.spec.containers[0].image`, `.metadata.annotations["a.b/c"]`."""
    return "".join(map(_step_text, steps)) or "."


def _step_text(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.replace("_", "").isalnum() else f"[{msgspec.json.encode(step).decode()}]"


def pointer_of(steps: Sequence[Step]) -> str:
    pointer = ""
    for step in steps:
        pointer = pointer_below(pointer, str(step))
    return pointer
