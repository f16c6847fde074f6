"""What must hold for the functions between the versions of a kind, whatever valid object they are given."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from typing import Any, Final

import msgspec
from attrs import field, frozen

from reconcile.client.diff import same
from reconcile.models import kind_of
from reconcile.models.conversions import ConversionError
from reconcile.testing.law_examples import Example, ExampleKind
from reconcile.testing.law_requirements import LawFault, Requirement, cause_of, first_change
from reconcile.webhooks.conversion_reviews import API_VERSION, KIND, convert_review
from reconcile.webhooks.object_conversion import VersionedKind

_UID: Final = "705ab4f5-6393-11e8-b7cc-42010a800003"


@frozen(eq=False)
class ConversionLaws:
    """The laws of one kind; `versions` are its classes, the newest first."""

    versions: Sequence[ExampleKind]
    kind: VersionedKind = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "kind", VersionedKind([one.model for one in self.versions]))

    def requirements(self, source: ExampleKind) -> Iterator[Requirement]:
        """Those of the conversions from one version to all others and back."""
        others = [_api_version(one) for one in self.versions if one is not source]
        yield Requirement(
            "no function raises",
            "let the function handle every object that the schema of its version admits",
            partial(self._raises_nothing, others),
        )
        yield Requirement(
            "every round trip gives the same object",
            "make the functions pure: what the other version has no field for is kept for them",
            partial(self._returns, others),
        )
        yield Requirement(
            "the direct way and the way by neighbours agree",
            "leave out the function between versions that are not neighbours, or mend it: others are chained",
            partial(self._commutes, list(permutations(others, 2))),
        )
        yield Requirement(
            "metadata stays as it is",
            "report it: a conversion cannot change metadata",
            partial(self._keeps_metadata, others),
        )
        yield Requirement(
            "the result is valid",
            "let the function return what the schema of its version admits, or widen that schema: an API "
            "server does not check what a conversion returns, and refuses the next write",
            partial(self._valid, source),
        )

    def calls(self, example: Example) -> Iterator[tuple[str, Callable[[], object]]]:
        """A conversion to each other version, as a server asks for it."""
        for version in self.versions:
            desired = _api_version(version)
            if desired != example.shown["apiVersion"]:
                body = _review(desired, example.shown)
                yield f"to {desired}", lambda body=body: convert_review(self.kind, body)  # type: ignore[misc]

    # --- the laws ---------------------------------------------------------------------------------

    def _raises_nothing(self, others: Sequence[str], example: Example) -> None:
        for target in others:
            try:
                there = self.kind.convert(example.shown, target)
                self.kind.convert(there, example.shown["apiVersion"])
            except ConversionError as error:
                raise LawFault(f"by way of {target}: {error}{cause_of(error)}") from None

    def _returns(self, others: Sequence[str], example: Example) -> None:
        here = example.shown["apiVersion"]
        for target in others:
            there = self._converted(example.shown, target)
            back = there and self._converted(there, here)
            if back is None:
                continue
            for part in (_fields, self._kept):
                before, after = part(example.shown), part(back)
                if not same(before, after):
                    raise LawFault(f"after {target} and back, {first_change(before, after)}")

    def _commutes(self, ways: Sequence[tuple[str, str]], example: Example) -> None:
        for through, target in ways:
            direct = self._converted(example.shown, target)
            near = self._converted(example.shown, through)
            by_neighbour = near and self._converted(near, target)
            if direct is None or by_neighbour is None:
                continue
            fields, others = _fields(direct), _fields(by_neighbour)
            if not same(fields, others):
                raise LawFault(f"{target} by way of {through}: {first_change(fields, others)}")

    def _keeps_metadata(self, others: Sequence[str], example: Example) -> None:
        before = example.shown["metadata"]
        for target in others:
            there = self._converted(example.shown, target)
            after = before if there is None else self._metadata(there)
            if not same(before, after):
                raise LawFault(f"in {target}, {first_change(before, after)}")

    def _valid(self, source: ExampleKind, example: Example) -> None:
        for version in self.versions:
            there = None if version is source else self._converted(example.shown, _api_version(version))
            if there is not None and (faults := version.faults(there)):
                raise LawFault(f"the schema of {_api_version(version)} refuses it: {'; '.join(faults)}")

    def _converted(self, obj: Mapping[str, Any], target: str) -> dict[str, Any] | None:
        """None if a function raises, of which another law tells."""
        try:
            return self.kind.convert(obj, target)
        except ConversionError:
            return None

    def _kept(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """The annotation of the library, which must not stay behind."""
        annotations = obj["metadata"].get("annotations") or {}
        return {name: value for name, value in annotations.items() if name == self.kind.annotation}

    def _metadata(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Without the annotation of the library."""
        metadata = dict(obj["metadata"])
        annotations = metadata.get("annotations") or {}
        kept = {name: value for name, value in annotations.items() if name != self.kind.annotation}
        return {**metadata, "annotations": kept} if kept else metadata


def _api_version(version: ExampleKind) -> str:
    return kind_of(version.model).resource.api_version


def _fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _review(desired: str, obj: Mapping[str, Any]) -> bytes:
    request = {"uid": _UID, "desiredAPIVersion": desired, "objects": [obj]}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "request": request})
