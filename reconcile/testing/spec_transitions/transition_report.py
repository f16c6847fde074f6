"""What was played, and what people read when a change of a spec goes wrong."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from reconcile.client.redaction import HIDDEN
from reconcile.testing.end_state import differences
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_modes import Broken
from reconcile.testing.scenario_runner import ScenarioRun
from reconcile.testing.spec_transitions.left_worlds import Hides, shortened, shown_value
from reconcile.testing.spec_transitions.spec_space import UnplayedValue
from reconcile.testing.spec_transitions.transition_player import InvalidSpec, PlayedChain, PlayedSpec

_MOST_LISTED: Final = 10
_NOTHING: Final = "<nothing>"


@frozen(kw_only=True)
class TransitionsReport:
    """What `transitions` played: everything held.

    `transitions` are changes of a spec, of so many `in_full`; `specs` as many objects as were made anew (and
    deleted) to compare with; `refusals` values that the server refused and that changed nothing, of
    `refusals_in_full`. `pairs` of values of two fields occurred together, of `pairs_in_full` that the server
    admits. `unplayed` could not be made valid. `immutable` changes were refused although either spec is
    admitted. `without_effect`: fields of which no value made a difference to any other object or the status.

    What there was no time for: `left` has the number of changes for each field, `untried` the fields of which
    not one value was tried. `uncombined` fields took no part in pairs, as there are too many.
    """

    fields: int
    transitions: int
    in_full: int
    specs: int
    refusals: int
    refusals_in_full: int
    pairs: int
    pairs_in_full: int
    unplayed: Sequence[UnplayedValue]
    immutable: int
    left: Mapping[str, int]
    untried: Sequence[str]
    uncombined: int
    without_effect: Sequence[str]
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether the budget sufficed for everything."""
        played = self.transitions, self.refusals, self.pairs
        return not self.untried and played == (self.in_full, self.refusals_in_full, self.pairs_in_full)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (
            f"{self.transitions} of {self.in_full} changes of {_count(self.fields, 'field')}, "
            f"{_count(self.specs, 'spec')} as new objects, {self.seconds:.1f} s"
        )
        if self.pairs_in_full:
            yield f"{self.pairs} of {self.pairs_in_full} pairs of values of two fields"
        yield f"{self.refusals} of {self.refusals_in_full} invalid values are refused, and change nothing"
        yield from self._not_played()
        if self.immutable:
            yield f"{_count(self.immutable, 'change')} refused by the server, since a field is immutable"
        if self.without_effect:
            yield f"without any effect: {', '.join(self.without_effect)}"
        if self.unplayed:
            yield f"{_count(len(self.unplayed), 'value')} that could not be made valid:"
            yield from (f"  {one}" for one in self.unplayed[:_MOST_LISTED])
            if len(self.unplayed) > _MOST_LISTED:
                yield f"  … {len(self.unplayed) - _MOST_LISTED} more"

    def _not_played(self) -> Iterator[str]:
        if not self.complete:
            yield "the budget was used up: give it more seconds, or play some fields alone (only)"
        if self.left:
            left = [f"{_count(number, 'change')} of {name}" for name, number in self.left.items()]
            yield f"not played: {_listed(left)}"
        if self.untried:
            yield f"not tried: {_listed(self.untried)}"
        if self.uncombined:
            yield f"{_count(self.uncombined, 'field')} not combined with others: there are too many pairs"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


class BrokenTransition(Broken):
    """A change of a spec goes wrong; the message tells the specs, what is wrong, and the trace of the run.

    `specs` are the least that were found: whole objects, one after the other.
    """

    def __init__(self, run: ScenarioRun, specs: Sequence[Mapping[str, Any]], text: str) -> None:
        AssertionError.__init__(self, text)
        self.run = run
        self.plan = run.plan
        self.specs = specs


def broken_transition(specs: Sequence[PlayedSpec], chain: PlayedChain, plural: str) -> BrokenTransition:
    """The error for a case that is as small as it gets."""
    manifests = [one.manifest if isinstance(one, InvalidSpec) else one for one in specs]
    hides = chain.run.redactor.hides
    lines = list(_steps(specs, manifests, plural, hides))
    lines += ["", "What is wrong:", *(f"  {found}" for found in chain.run.violations)]
    lines += ["", "The run:", format_trace(chain.run).partition("\n\nWhat is wrong:")[0]]
    if fields := _fields_changed(manifests):
        lines += ["", "To play it again:", *(f"  transitions(..., only={field!r})" for field in fields)]
    return BrokenTransition(chain.run, manifests, shortened("\n".join(lines)))


def _steps(
    specs: Sequence[PlayedSpec], manifests: Sequence[Mapping[str, Any]], plural: str, hides: Hides
) -> Iterator[str]:
    first = manifests[0]
    metadata = first["metadata"]
    place = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
    if len(specs) == 1:
        yield f"a new {first['kind']} goes wrong:"
    else:
        yield f"a {first['kind']} goes wrong when its spec changes:"
    yield f"  1. a new {first['kind']} {place}: {_shown_spec(first, plural, hides)}"
    accepted = first
    for number, (spec, manifest) in enumerate(zip(specs[1:], manifests[1:], strict=True), start=2):
        changes = [
            _changed(path, _value(left, plural, path, hides), _value(right, plural, path, hides))
            for path, left, right in differences(accepted, manifest)
        ]
        word = "the server refuses" if isinstance(spec, InvalidSpec) else "change"
        yield f"  {number}. {word} {'; '.join(changes) or 'nothing'}"
        if not isinstance(spec, InvalidSpec):
            accepted = manifest


def _changed(path: str, before: str, after: str) -> str:
    return f"{path.lstrip('.')} from {before} to {after}"


def _fields_changed(manifests: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """The fields in which the specs differ, as `only` takes them."""
    found = [
        path.lstrip(".").replace("[]", "[0]")
        for one, other in itertools.pairwise(manifests)
        for path, _, _ in differences(one, other)
    ]
    return list(dict.fromkeys(found))


def _shown_spec(manifest: Mapping[str, Any], plural: str, hides: Hides) -> str:
    users = {
        name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")
    }
    if labels := manifest["metadata"].get("labels"):
        users["labels"] = labels
    return shown_value(_veiled(users, plural, "", hides))


def _veiled(value: Any, plural: str, path: str, hides: Hides) -> Any:
    if path and hides(plural, path):
        return HIDDEN
    if isinstance(value, Mapping):
        return {name: _veiled(part, plural, f"{path}.{name}", hides) for name, part in value.items()}
    if isinstance(value, list):
        return [_veiled(part, plural, f"{path}[]", hides) for part in value]
    return value


def _value(value: Any, plural: str, path: str, hides: Hides) -> str:
    if value == _NOTHING:
        return "nothing"
    veiled = _veiled(value, plural, path, hides)
    return HIDDEN if veiled == HIDDEN else shown_value(veiled)
