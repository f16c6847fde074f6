"""What must hold for the functions of an Admission, whatever valid object they are given."""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.client.diff import same
from reconcile.controller.admission import Admission, AdmissionRequest, Operation, Refusal
from reconcile.embedded.schema.json_patches import apply_operations
from reconcile.models import decode, kind_of
from reconcile.testing.law_examples import Example, ExampleKind
from reconcile.testing.law_requirements import LawFault, Requirement, cause_of, first_change, json_text
from reconcile.webhooks.admission_calls import FunctionError, admit_defaults, admit_refuses
from reconcile.webhooks.admission_reviews import API_VERSION, KIND

_UID: Final = "705ab4f5-6393-11e8-b7cc-42010a800002"
_ABSENT: Final = object()


@frozen(eq=False)
class AdmissionLaws:
    """The laws of one Admission, whose kind is `examples`."""

    admission: Admission[Any]
    examples: ExampleKind

    def requirements(self) -> Iterator[Requirement]:
        """Those of `defaults`, if there is one, and those of `refuses`."""
        yield Requirement(
            "no function raises",
            "let the function handle every object that the schema admits, or let the schema refuse more",
            self._raises_nothing,
            2,
        )
        if self.admission.defaults is not None:
            yield from self._of_defaults()
        if self.admission.refuses is not None and "UPDATE" in self.admission.operations:
            yield Requirement(
                "what may be created may be updated without a change",
                "compare `obj` with `old` in refuses=, and refuse only what differs",
                self._accepts_no_change,
            )

    def _of_defaults(self) -> Iterator[Requirement]:
        yield Requirement(
            "defaults are idempotent",
            "let defaults= fill only what is not set: API servers call it again after other webhooks",
            self._idempotent,
        )
        yield Requirement(
            "defaults are valid",
            "let defaults= return what the schema of the kind admits, or widen the schema",
            self._valid,
        )
        yield Requirement(
            "defaults never touch what is set",
            "fill a field only where it is unset; make it `T | None` or UNSET if its default value "
            "is also one that users choose",
            self._keeps_what_is_set,
        )
        yield Requirement(
            "defaults keep name, namespace, uid and status",
            "return the object with its metadata: `attrs.evolve(obj, spec=...)`",
            self._keeps_identity,
        )

    # --- the laws ---------------------------------------------------------------------------------

    def _raises_nothing(self, one: Example, other: Example) -> None:
        for operation in self.admission.operations:
            old = None if operation == "CREATE" else one.shown if operation == "DELETE" else other.shown
            body = review(self.admission, operation, None if operation == "DELETE" else one.shown, old)
            for admit in (admit_defaults, admit_refuses):
                try:
                    admit(self.admission, body)
                except FunctionError as error:
                    if error.__cause__ is not None or admit is admit_refuses:
                        raise LawFault(f"{error} on {operation}{cause_of(error)}") from None

    def _idempotent(self, example: Example) -> None:
        once = self._defaulted(example.shown)
        twice = self._defaulted(once)
        if not same(once, twice):
            raise LawFault(f"after a second call, {first_change(once, twice)}")

    def _valid(self, example: Example) -> None:
        if faults := self.examples.faults(self._defaulted(example.shown)):
            raise LawFault(f"the schema refuses the result: {'; '.join(faults)}")

    def _keeps_what_is_set(self, example: Example) -> None:
        touched = next(_touched(example.sent, self._defaulted(example.shown)), None)
        if touched is not None:
            path, before, after = touched
            became = "is removed" if after is _ABSENT else f"becomes {json_text(after)}"
            raise LawFault(f"{path} is set to {json_text(before)} and {became}")

    def _keeps_identity(self, example: Example) -> None:
        for operation in ("CREATE", "UPDATE"):
            if operation in self.admission.operations:
                try:
                    admit_defaults(self.admission, self._review(operation, example.shown))
                except FunctionError as error:
                    if error.__cause__ is None:
                        raise LawFault(str(error)) from None

    def _accepts_no_change(self, example: Example) -> None:
        assert self.admission.refuses is not None
        shown = self._defaulted(example.shown)
        if "CREATE" in self.admission.operations and not self._accepts(shown):
            return
        obj = decode(self.admission.kind, shown)
        request = AdmissionRequest("UPDATE", namespace=obj.namespace, name=obj.name)
        try:
            verdicts = list(self.admission.refuses(obj, obj, request))
        except Exception:
            return  # another law says so
        for verdict in verdicts:
            if isinstance(verdict, Refusal):
                raise LawFault(f"refused: {verdict.field}: {verdict.message}")

    # --- calls ------------------------------------------------------------------------------------

    def calls(self, example: Example) -> Iterator[tuple[str, Callable[[], object]]]:
        """A call of each function, as a server makes it."""
        operation: Operation = "UPDATE" if "UPDATE" in self.admission.operations else "CREATE"
        body = self._review(operation, example.shown)
        if self.admission.defaults is not None:
            yield "defaults", lambda: admit_defaults(self.admission, body)
        if self.admission.refuses is not None:
            yield "refuses", lambda: admit_refuses(self.admission, body)

    def _review(self, operation: Operation, shown: Mapping[str, Any]) -> bytes:
        if operation == "CREATE":
            return review(self.admission, operation, shown, None)
        # Another annotation, since `refuses` is not called for an update without a change.
        annotations = {"annotations": {"note": "before"}}
        old = {**shown, "metadata": {**shown["metadata"], **annotations}}
        return review(self.admission, operation, shown, old)

    def _defaulted(self, shown: dict[str, Any]) -> dict[str, Any]:
        operation: Operation = "CREATE" if "CREATE" in self.admission.operations else "UPDATE"
        try:
            answer = admit_defaults(self.admission, self._review(operation, shown))
        except FunctionError:
            return shown  # another law says so
        patch = msgspec.json.decode(answer)["response"].get("patch")
        if patch is None:
            return shown
        made: dict[str, Any] = apply_operations(shown, msgspec.json.decode(base64.b64decode(patch)))
        return made

    def _accepts(self, shown: Mapping[str, Any]) -> bool:
        try:
            answer = admit_refuses(self.admission, self._review("CREATE", shown))
        except FunctionError:
            return False
        allowed: bool = msgspec.json.decode(answer)["response"]["allowed"]
        return allowed


def review(
    admission: Admission[Any],
    operation: str,
    obj: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None,
) -> bytes:
    """The AdmissionReview of a write of these objects."""
    resource = kind_of(admission.kind).resource
    metadata = (obj or old or {})["metadata"]
    request = {
        "uid": _UID,
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "operation": operation,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
    }
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "request": request})


# --- differences ----------------------------------------------------------------------------------


def _touched(sent: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each field that was set and is not as it was; items that follow those of a list are no change."""
    if isinstance(sent, Mapping) and isinstance(after, Mapping):
        for name, value in sent.items():
            yield from _touched(value, after.get(name, _ABSENT), f"{path}.{name}" if path else name)
    elif isinstance(sent, list) and isinstance(after, list):
        for number, value in enumerate(sent):
            yield from _touched(value, after[number] if number < len(after) else _ABSENT, f"{path}[{number}]")
    elif after is _ABSENT or not same(sent, after):
        yield path, sent, after
