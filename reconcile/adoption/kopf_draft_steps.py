"""The steps of a draft as source: what the sub-handlers of one handler on kopf become.

Each is carried out once for the object, or once for each change that its handler was called for. Their
records are in the status of the drafted model, which gets a field for them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from reconcile.adoption.kopf_draft import HELD_SECONDS, Draft, Part
from reconcile.models.generating import source_of

RECORDS: Final = ("steps", "subHandlers", "carriedOutSteps")
"""Names for the field of the records, the first of which a status does not have is taken."""
_MARK: Final = "reconcileDraftedSteps"
_MARKED: Final = re.compile(r"^    reconcile_drafted_steps: .*$", re.MULTILINE)
_OPTIONAL: Final = re.compile(r"^    status: (.*?)\b(\w+) \| None(.*) = None$", re.MULTILINE)
_CHANGES: Final = frozenset({"kopf.on.update", "kopf.on.field"})


# --- functions of the reconciler ----------------------------------------------------------------------


def steps_of(draft: Draft, part: Part) -> Iterator[str]:
    """The functions for the sub-handlers of a part, and the steps that it carries out."""
    kind = draft.kind
    for handler, name in part.inner.items():
        yield from _step(draft, part, name, f"the sub-handler {handler} of {part.name}")
    if part.each:
        yield from _step(draft, part, part.each, f"a sub-handler that {part.name} made; step.name says which")
        yield from ("", "", f"def {part.beside['names']}(obj: {kind}) -> Sequence[str]:")
        yield f'    """The steps of {part.each}, from the object alone: lower case, digits and dashes."""'
        yield "    return ()  # to be written"
    option = ""
    if part not in draft.cleanups and part.decorators & _CHANGES:
        yield from _value(part, kind)
        option = f", once_for={part.beside['value']}"
    names = zip(step_names(part), part.inner.items(), strict=True)
    steps = [f'Step("{name}", {of}{option}{_replaces(draft, part, one)}),' for name, (one, of) in names]
    if part.each:
        steps.append(f"*(Step(name, {part.each}{option}) for name in {part.beside['names']}(obj)),")
    given = [f"{kind},", "[", *(f"    {step}" for step in steps), "],"]
    given += ["predecessor=predecessor,"] if part not in draft.cleanups else []
    given += [f'field="{python_name(draft.steps_field)}",'] if draft.steps_field != RECORDS[0] else []
    yield from ("", "")
    if part.each:
        yield f"def {part.beside['steps']}(obj: {kind}) -> Steps[{kind}]:"
        yield f'    """What {part.name} carries out, each once."""'
        yield from ("    return Steps(", *(f"        {line}" for line in given), "    )")
    else:
        yield from (f"{part.beside['steps']} = Steps(", *(f"    {line}" for line in given), ")")


def _replaces(draft: Draft, part: Part, inner: str) -> str:
    """The option that names the sub-handlers whose success on kopf counts for a step."""
    if part in draft.cleanups:
        return ""
    ids = [json.dumps(one) for one in part.replaced(inner)]
    return f", replaces=[{', '.join(ids)}]"


def body_of(draft: Draft, part: Part) -> Sequence[str]:
    """The lines of a part with steps."""
    steps = f"{part.beside['steps']}(ctx.object)" if part.each else part.beside["steps"]
    functions = [*part.inner.values(), *((part.beside["names"], part.each) if part.each else ())]
    unready = f"Result(requeue_after={HELD_SECONDS})" if part in draft.cleanups else "None"
    return (
        f"if not {{{', '.join(map(json.dumps, functions))}}}.isdisjoint(UNWRITTEN):",
        f"    return {unready}  # a step that is not written would count as carried out",
        f"# What is written here is done in each run; a step once, as status.{draft.steps_field} says.",
        f"return await {steps}.carry_out(ctx)",
    )


def names_used(draft: Draft) -> Mapping[str, Sequence[str]]:
    """What the steps of a draft import, by module."""
    parts = draft.stepped
    if not parts:
        return {}
    changed = [part for part in parts if part not in draft.cleanups and part.decorators & _CHANGES]
    found = {"reconcile.blocks": ["Step", "StepRun", "Steps"]}
    if changed:
        found["reconcile.models"] = ["encode"]
    if any(not _field_of(part) for part in changed):
        found["reconcile.blocks"].append("digest_of")
    if any(part.each for part in parts):
        found["collections.abc"] = ["Sequence"]
    return found


def _step(draft: Draft, part: Part, name: str, text: str) -> Iterator[str]:
    safe = text.replace("\\", "\\\\").replace('"', "'")
    yield from ("", "", f"async def {name}(ctx: Context[{draft.kind}], step: StepRun) -> Result | None:")
    yield f'    """On kopf: {safe}."""'
    yield f'    ctx.log.debug("to be written", part="{name}")'
    yield "    return None  # it is done, and not called again; a Result: not done yet"


def _value(part: Part, kind: str) -> Iterator[str]:
    """The function for `once_for=`: the field that the handler was for, or all that kopf compares."""
    field = _field_of(part)
    yield from ("", "", f"def {part.beside['value']}(obj: {kind}) -> object:")
    if field:
        yield f'    """What counts as a change for {part.name}: another value of {field}."""'
        *parents, last = field.split(".")
        value = "encode(obj)"
        for name in parents:
            value = f'({value}.get("{name}") or {{}})'
        yield f'    return {value}.get("{last}")'
        return
    yield f'    """What counts as a change for {part.name}: all but metadata and status, as a digest."""'
    yield "    parts = {name: value for name, value in encode(obj).items() if name not in _NOT_HANDLED}"
    yield "    return digest_of(parts)"


def constants(draft: Draft) -> Sequence[str]:
    """What the functions for `once_for=` refer to."""
    if "digest_of" not in names_used(draft).get("reconcile.blocks", ()):
        return ()
    return ["", '_NOT_HANDLED = ("metadata", "status")']


def _field_of(part: Part) -> str:
    """The one field that all its handlers of changes are for; empty if they are not for one."""
    fields = {one.arguments.get("field") for one in part.handlers if one.decorator in _CHANGES}
    field = fields.pop() if len(fields) == 1 else None
    return field if isinstance(field, str) and re.fullmatch(r"[\w.-]+", field) else ""


def step_names(part: Part) -> Sequence[str]:
    """The names of the steps for its known sub-handlers: as those are, in lower case, digits and dashes."""
    names: list[str] = []
    for function in part.inner.values():
        plain = re.sub(r"[^a-z0-9]+", "-", function.lower()).strip("-")[:60].rstrip("-") or "step"
        numbered = [plain, *(f"{plain[:57]}-{number}" for number in range(2, 100))]
        names.append(next(name for name in numbered if name not in names))
    return names


# --- the field of the model ---------------------------------------------------------------------------


def records_field(definition: Mapping[str, Any]) -> str:
    """The name in JSON of a field for the records that the status of no version has."""
    versions = definition["spec"]["versions"]
    taken = {name for version in versions for name in _status(version).get("properties") or ()}
    return next(name for name in RECORDS if name not in taken)


def with_records(definition: Mapping[str, Any], name: str) -> str:
    """The classes of a definition, with a field of that name for the records in the status of each."""
    amended = deepcopy(dict(definition))
    for version in amended["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"].setdefault("properties", {})
        status = properties.setdefault("status", {"type": "object"})
        marked = {"type": "array", "items": {"type": "string"}}
        status["properties"] = {**(status.get("properties") or {}), _MARK: marked}
    source = _MARKED.sub(f"    {python_name(name)}: tuple[StepStatus, ...] = ()", source_of(amended))
    source = _OPTIONAL.sub(r"    status: \1\2\3 = \2()", source)
    place = "from reconcile.models import"
    imported = "from reconcile.blocks import StepStatus\n"
    if place in source:
        return source.replace(place, f"{imported}{place}", 1)
    return re.sub(r"(^from reconcile import .*\n)", rf"\1{imported}", source, count=1, flags=re.MULTILINE)


def _status(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return (schema.get("properties") or {}).get("status") or {}


def python_name(name: str) -> str:
    """A name in JSON as that of an attribute."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
