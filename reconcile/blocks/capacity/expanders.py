"""Which of several pools grows. An expander leaves equally good options; the next one chooses among them."""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import yaml
from attrs import frozen

from reconcile.blocks.capacity.node_template import NodeTemplate
from reconcile.blocks.capacity.packing import Packing


@frozen
class ExpanderOption:
    """A pool that could take pods, and how."""

    pool: str
    template: NodeTemplate
    packing: Packing

    @property
    def waste(self) -> Fraction:
        """The unused shares of cpu and memory of the new nodes, added up; exact."""
        return sum((self._unused(name) for name in ("cpu", "memory")), Fraction(0))

    def _unused(self, name: str) -> Fraction:
        there = self.template.free.get(name, 0) * self.packing.nodes
        return 1 - Fraction(self.packing.used.get(name, 0), there) if there else Fraction(0)


@frozen
class ExpanderChoice:
    """The options that an expander left, the pools it does not know, and a message if something is wrong."""

    options: tuple[ExpanderOption, ...]
    unmatched: tuple[str, ...] = ()
    notice: str = ""


Expander: TypeAlias = Callable[[Sequence[ExpanderOption]], ExpanderChoice]
"""Chooses which of several pools grows; the next expander chooses among those it leaves."""


class BadPriorities(ValueError):
    """A text without valid priorities; the message says where."""


@frozen
class Priorities:
    """Expressions for (parts of) names of pools, by number: the highest number wins; no levels leave all."""

    levels: tuple[tuple[int, tuple[re.Pattern[str], ...]], ...] = ()
    fault: str = ""

    @classmethod
    def parse(cls, text: str) -> "Priorities":
        """From YAML, as in the ConfigMap `cluster-autoscaler-priority-expander`. Raises BadPriorities."""
        try:
            said = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # or a date that does not exist
            where = getattr(error, "problem_mark", None)
            raise BadPriorities(f"not valid YAML{f', line {where.line + 1}' if where else ''}") from error
        if not isinstance(said, dict) or not said:
            raise BadPriorities("expected a mapping of numbers to lists of expressions")
        return cls(tuple(sorted(_level(number, patterns) for number, patterns in said.items())[::-1]))

    def __call__(self, options: Sequence[ExpanderOption]) -> ExpanderChoice:
        """The options of the highest number. Unmatched pools are left out, unless all are unmatched."""
        if not self.levels:
            return ExpanderChoice(tuple(options), notice=self.fault or "there are no priorities")
        unmatched = tuple(one.pool for one in options if self.of(one.pool) is None)
        for number, _ in self.levels:
            best = tuple(one for one in options if self.of(one.pool) == number)
            if best:
                return ExpanderChoice(best, unmatched)
        return ExpanderChoice(
            tuple(options), unmatched, "no priority matches any of the pools that are possible"
        )

    def of(self, pool: str) -> int | None:
        """The highest number with a matching expression."""
        for number, patterns in self.levels:
            if any(pattern.search(pool) for pattern in patterns):
                return number
        return None


def least_waste(options: Sequence[ExpanderOption]) -> ExpanderChoice:
    """The options that leave the least of cpu and memory unused."""
    if not options:
        return ExpanderChoice(())
    least = min(one.waste for one in options)
    return ExpanderChoice(tuple(one for one in options if one.waste == least))


def at_random(chance: Callable[[], float]) -> Expander:
    """One option, by `chance` (from 0 to below 1)."""

    def choose(options: Sequence[ExpanderOption]) -> ExpanderChoice:
        return ExpanderChoice((options[int(chance() * len(options))],) if options else ())

    return choose


def choose(options: Sequence[ExpanderOption], expanders: Iterable[Expander]) -> ExpanderChoice:
    """At most one option, the first by name of those left, with all messages of the expanders."""
    left: tuple[ExpanderOption, ...] = tuple(sorted(options, key=lambda option: option.pool))
    unmatched: list[str] = []
    notices: list[str] = []
    for expander in expanders:
        if not left:
            break
        chosen = expander(left)
        left = chosen.options
        unmatched.extend(chosen.unmatched)
        notices.extend(filter(None, [chosen.notice]))
    return ExpanderChoice(left[:1], tuple(dict.fromkeys(unmatched)), "; ".join(notices))


def _level(number: Any, patterns: Any) -> tuple[int, tuple[re.Pattern[str], ...]]:
    if isinstance(number, bool) or not isinstance(number, int):
        raise BadPriorities(f"expected an integer as priority, got {number!r}")
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise BadPriorities(f"priority {number}: expected a list of expressions")
    try:
        return number, tuple(re.compile(one) for one in patterns)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPriorities(f"priority {number} has an invalid expression: {error}") from error
