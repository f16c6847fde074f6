"""What checks find, and how it is told."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from attrs import asdict, frozen

Severity: TypeAlias = Literal["error", "warning", "unknown"]
"""An error keeps the operator, or those who write its objects, from working; a warning is a risk; what is
unknown could not be read."""

SEVERITIES: Final[Sequence[Severity]] = ("error", "warning", "unknown")
MOST: Final = 20
"""Findings of one check that are shown: a cluster in which one thing fails often has it a thousand times."""


@frozen
class Finding:
    """One fault: the check that found it, the object `subject` that has it, and the next step to mend it."""

    check: str
    severity: Severity
    subject: str
    what: str
    next_step: str

    def line(self) -> str:
        """One line for a terminal: what control or reorder it in the text of a cluster is escaped."""
        return printable(f"{self.severity:7}  {self.check}: {self.subject} {self.what}; {self.next_step}")


@frozen
class Unread:
    """A fact that could not be read: what, and why not."""

    what: str
    why: str
    next_step: str
    unreachable: bool = False
    """Whether no server answered at all, or none in time."""

    def finding(self, check: str) -> Finding:
        return Finding(check, "unknown", self.what, f"cannot be read: {self.why}", self.next_step)


@frozen
class Report:
    """What the `checked` checks found, in their order."""

    checked: Sequence[str]
    findings: Sequence[Finding]

    @property
    def failed(self) -> bool:
        return any(one.severity == "error" for one in self.findings)

    def summary(self) -> str:
        """Such as `checked 11 things: 2 errors, 1 warning`."""
        counts = {level: sum(one.severity == level for one in self.findings) for level in SEVERITIES}
        return f"checked {_count(len(self.checked), 'thing')}: {_listed(counts)}"

    def as_json(self) -> Sequence[Mapping[str, str]]:
        return [asdict(one) for one in self.findings]


def at_most(findings: Iterable[Finding]) -> Sequence[Finding]:
    """The first findings of a check, and how many more there are."""
    found = sorted(findings, key=lambda one: SEVERITIES.index(one.severity))
    if len(found) <= MOST:
        return found
    last = found[MOST - 1]
    more = Finding(
        last.check,
        last.severity,
        f"{len(found) - MOST + 1} more",
        "are left out here",
        "mend the first ones, and run the command again",
    )
    return [*found[: MOST - 1], more]


def printable(text: str) -> str:
    """`text` in one line that a terminal shows as it is: escapes in place of all that is not printable."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _listed(counts: Mapping[Severity, int]) -> str:
    words = [_count(counts["error"], "error"), _count(counts["warning"], "warning")]
    told = [word for word in words if not word.startswith("0 ")]
    told += [f"{counts['unknown']} not known"] if counts["unknown"] else []
    return ", ".join(told) or "nothing found"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
