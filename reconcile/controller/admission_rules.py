"""The CEL rules of an Admission: what an API server accepts of them, and which a definition could hold.

Pure, and without a CEL library: words are read, nothing is compiled.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from reconcile.models import Rule

REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
"""Of a refusal by a policy (supportedValidationPolicyReason of Kubernetes)."""

_RAW: Final = r"(?:[rR][bB]?|[bB][rR])(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|\"[^\"\n]*\")"
_STRING: Final = (
    r"'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\""
)
_WORD: Final = re.compile(rf"{_RAW}|{_STRING}|//[^\n]*|[A-Za-z_]\w*|[=!]=|\S", re.DOTALL)
_BEYOND: Final = frozenset({"request", "namespaceObject", "authorizer"})
_OBJECTS: Final = frozenset({"object", "oldObject"})
_IN_DEFINITIONS: Final = frozenset({"name", "generateName"})
"""What rules of a definition may read of the metadata."""


def read_rules(rules: "Rule | str | Iterable[Rule | str]") -> tuple[Rule, ...]:
    """The rules as `Rule`; one of them may be given alone. Raises TypeError for anything else."""
    several = (rules,) if isinstance(rules, Rule | str) else tuple(rules)
    if wrong := [one for one in several if not isinstance(one, Rule | str)]:
        raise TypeError(f"rules= expected a Rule or a text in CEL, got {type(wrong[0]).__name__}")
    return tuple(Rule(one) if isinstance(one, str) else one for one in several)


def check_rule(rule: Rule) -> None:
    """Raise ValueError for what a policy cannot have."""
    where = f"rules= {rule.rule!r}"
    if not rule.rule.strip():
        raise ValueError("rules= an expression is empty: write one in CEL that is true of what is accepted")
    if rule.field_path or rule.optional_old_self is not None:
        option = "field_path=" if rule.field_path else "optional_old_self="
        raise ValueError(f"{where}: {option} is for rules of a class: name the field in message= instead")
    if rule.reason and rule.reason not in REASONS:
        raise ValueError(f"{where}: reason= {rule.reason!r} is not one of {', '.join(REASONS)}")
    if (rule.message and not rule.message.strip()) or re.search(r"[\n\r]", rule.message.strip()):
        raise ValueError(f"{where}: message= expected one line of text")


def fits_definition(texts: Iterable[str]) -> bool:
    """Whether expressions read nothing but what rules in a definition can read of an object and the old one.

    That is any field but metadata other than the name; comparing either with null counts too.
    """
    return all(_fits(_WORD.findall(text)) for text in texts)


def _fits(words: Sequence[str]) -> bool:
    return all(_is_within(words, at) for at in _roots(words))


def _roots(words: Sequence[str]) -> Iterator[int]:
    """Where names stand that are not members."""
    for at, word in enumerate(words):
        is_member = words[at - 1 : at] == ["."] or words[max(0, at - 2) : at] == [".", "?"]
        if word in _BEYOND | _OBJECTS and not is_member:
            yield at


def _is_within(words: Sequence[str], at: int) -> bool:
    if words[at] in _BEYOND:
        return False
    after = [word for word in words[at + 1 : at + 7] if word != "?"]
    if after[:1] and after[0] in ("==", "!="):
        return after[1:2] == ["null"]
    if after[:1] != ["."]:
        return False
    return after[1:2] != ["metadata"] or (after[2:3] == ["."] and bool(_IN_DEFINITIONS & set(after[3:4])))
