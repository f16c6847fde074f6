"""The modules of a draft as source."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reconcile.adoption.kopf_draft import HELD_SECONDS, Draft, Part, controller_name
from reconcile.adoption.kopf_draft_moving import moving
from reconcile.adoption.kopf_draft_steps import body_of, constants, names_used, steps_of

_DEPLOYMENTS: Final = (
    "# Add deployments=, the name of its Deployment if that is not this operator's too: no manager",
    "# starts then before its pods have ended.",
)
"""A name that is not right would be worse than none: without one, a recent status by kopf counts."""


def modules_of(drafts: Sequence[Draft], name: str) -> Mapping[str, str]:
    """The texts of a draft of some kinds by their paths; `name` is that of the operator."""
    package = drafts[0].package
    files = {f"{package}/__main__.py": _main(drafts[0]), "MOVING.md": moving(drafts)}
    for draft in drafts:
        files[f"{package}/{draft.module('reconciler')}.py"] = _reconciler(draft, name)
        files[f"tests/test_{package}{'' if draft.first else f'_{draft.kind.lower()}'}.py"] = _tests(draft)
        if draft.admits:
            files[f"{package}/{draft.module('admission')}.py"] = _admission(draft)
    return files


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def _function(head: str, part: Part, *body: str) -> Iterator[str]:
    yield from ("", "", head, part.docstring(), *(f"    {line}" for line in body))


def _reconciler(draft: Draft, name: str) -> str:
    kind = draft.kind
    names = {"Context", "Controller", "Predecessor"} | ({"Manager"} if draft.first else set())
    names |= {"Result"} if draft.cleanups or draft.stepped else set()
    names |= {"Deleted"} if draft.forgetting else set()
    names |= {"Background"} if draft.daemons else set()
    names |= {"Index"} if draft.indexes else set()
    kinds = sorted(
        {*draft.owned, *(of for _, of in draft.indexes.values())} - {kind}
        | ({kind} if draft.domain else set())
    )
    used = names_used(draft)
    lines = [
        f'"""The reconciler for each {kind}: a draft from the handlers of an operator on kopf.',
        "",
        "A function here takes the place of each function there. Fill in one after the other, and delete",
        "what its docstring says when that is done. Runs come at every start and after every change: look",
        "at what exists, and do what is missing.",
        '"""',
        "",
        *_imported("collections.abc", used, blank=True),
        *(["import anyio"] if draft.daemons else []),
        f"from reconcile import {', '.join(sorted(names))}",
        *_imported("reconcile.blocks", used),
        *([f"from reconcile.kinds import {', '.join(kinds)}"] if kinds else []),
        *_imported("reconcile.models", used),
        *(["", *own] if (own := _own_imports(draft)) else []),
        "",
        "UNWRITTEN: tuple[str, ...] = (",
        *(f'    "{name}",' for name in draft.unwritten),
        ")",
        '"""Functions that are to be written: take each out when it is. Until there are none, no object of',
        'the operator on kopf is taken over, and a manager does not start where there is one."""',
    ]
    lines += constants(draft)
    if draft.stepped:
        lines += ["", f"predecessor = {_predecessor(draft, name)}"]
    for part in draft.reconciled:
        lines += _stepped(draft, part) if draft.has_steps(part) else _reconciled(part, kind)
    lines += _reconcile(draft)
    for part in (*draft.cleanups, *draft.forgetting, *draft.daemons):
        lines += _other(draft, part)
    lines += _joined(draft)
    for part, of in draft.indexes.values():
        head = f"def {part.name}({of.lower()}: {of}) -> str | None:"
        lines += _function(head, part, "return None  # to be written: what it is found by")
    lines += ["", "", "controller = Controller(", f"    {kind},", f"    {draft.reconciler},"]
    lines += [f"    {option}," for option in _options(draft, name)]
    lines += [")"]
    if draft.first:
        controllers = ", ".join(("controller", *map(controller_name, draft.beside)))
        lines += [f'manager = Manager({controllers}, name="{name}")']
    return _text(lines)


def _imported(module: str, used: Mapping[str, Sequence[str]], *, blank: bool = False) -> Sequence[str]:
    names = sorted(used.get(module, ()))
    line = [f"from {module} import {', '.join(names)}"] if names else []
    return [*line, ""] if line and blank else line


def _reconcile(draft: Draft) -> Iterator[str]:
    """The function that calls all parts: those with steps last, since a step that waits holds up the rest."""
    stepped = [part.name for part in draft.reconciled if draft.has_steps(part)]
    returns = "Result | None" if stepped else "None"
    yield from ("", "", f"async def {draft.reconciler}(ctx: Context[{draft.kind}]) -> {returns}:")
    yield '    """Bring one object to its desired state."""'
    yield from (f"    await {part.name}(ctx)" for part in draft.reconciled if part.name not in stepped)
    if stepped:
        yield f"    return {' or '.join(f'await {name}(ctx)' for name in stepped)}"
    if not draft.reconciled:
        yield f'    ctx.log.debug("to be written", part="{draft.reconciler}")'


def _stepped(draft: Draft, part: Part) -> Iterator[str]:
    """A function whose sub-handlers are steps, and those."""
    yield from steps_of(draft, part)
    yield from _function(
        f"async def {part.name}(ctx: Context[{draft.kind}]) -> Result | None:",
        part,
        *body_of(draft, part),
    )


def _import_of_kind(draft: Draft) -> str:
    module = "reconcile.kinds" if draft.domain else f"{draft.package}.{draft.module('models')}"
    return f"from {module} import {draft.kind}"


def _reconciled(part: Part, kind: str) -> Iterator[str]:
    """A function that the reconciler calls, and those for its sub-handlers before it."""
    for handler, name in part.inner.items():
        yield from ("", "", f"async def {name}(ctx: Context[{kind}]) -> None:")
        text = f"On kopf: the sub-handler {handler} of {part.name}".replace("\\", "\\\\").replace('"', "'")
        yield f'    """{text}."""'
        yield f'    ctx.log.debug("to be written", part="{name}")'
    head = f"async def {part.name}(ctx: Context[{kind}]) -> None:"
    body = [f"await {name}(ctx)" for name in part.inner.values()]
    if part.each:
        body.append("# and a loop over those that it registered while it ran")
    if body:
        body = ["# In each run; what may be done once only is a Step of reconcile.blocks.Steps.", *body]
    yield from _function(head, part, *(body or [f'ctx.log.debug("to be written", part="{part.name}")']))


def _own_imports(draft: Draft) -> Sequence[str]:
    """The imports from other modules of the draft, in their order."""
    lines = [] if draft.domain else [_import_of_kind(draft)]
    if draft.admits:
        lines.append(f"from {draft.package}.{draft.module('admission')} import admission")
    if draft.first:
        modules = {controller_name(one): f"{one.kind.lower()}_reconciler" for one in draft.beside}
        lines += [
            f"from {draft.package}.{module} import controller as {name}" for name, module in modules.items()
        ]
    return sorted(lines)


def _other(draft: Draft, part: Part) -> Iterator[str]:
    """A function that is called beside the reconciler."""
    kind = draft.kind
    if draft.has_steps(part):
        yield from _stepped(draft, part)
    elif part in draft.cleanups:
        yield from _function(
            f"async def {part.name}(ctx: Context[{kind}]) -> Result | None:",
            part,
            f'ctx.log.warning("a cleanup is to be written, so the object stays", part="{part.name}")',
            f"return Result(requeue_after={HELD_SECONDS})  # None when all is undone: the object goes then",
        )
    elif part in draft.forgetting:
        head = f"async def {part.name}(gone: Deleted[{kind}]) -> None:"
        yield from _function(head, part, "assert gone.object  # to be written")
    else:
        yield from _function(
            f"async def {part.name}(task: Background[{kind}]) -> None:",
            part,
            "await anyio.sleep_forever()  # to be written: wait for a change, then",
            f'task.trigger("{part.name}")',
        )


def _joined(draft: Draft) -> Iterator[str]:
    """Where there are several functions for one option, the one that calls them."""
    kind = draft.kind
    if len(draft.cleanups) > 1:
        yield from ("", "", f"async def cleanup(ctx: Context[{kind}]) -> Result | None:")
        yield '    """Undo what was made for the object: it stays until no part asks for another run."""'
        stepped = [part for part in draft.cleanups if draft.has_steps(part)]
        calls = [f"await {part.name}(ctx)" for part in draft.cleanups if part not in stepped]
        calls += [" or ".join(f"await {part.name}(ctx)" for part in stepped)] if stepped else []
        yield f"    results = [{', '.join(calls)}]"
        yield "    return next((result for result in results if result is not None), None)"
    if len(draft.forgetting) > 1:
        yield from ("", "", f"async def on_deleted(gone: Deleted[{kind}]) -> None:")
        yield '    """Called with the last state of an object that is gone."""'
        yield from (f"    await {part.name}(gone)" for part in draft.forgetting)
    if len(draft.daemons) > 1:
        yield from ("", "", f"async def background(task: Background[{kind}]) -> None:")
        yield '    """Lives as long as its object."""'
        yield "    async with anyio.create_task_group() as group:"
        yield from (f"        group.start_soon({part.name}, task)" for part in draft.daemons)


def _options(draft: Draft, name: str) -> Iterator[str]:
    for option, parts in (
        ("cleanup", draft.cleanups),
        ("on_deleted", draft.forgetting),
        ("background", draft.daemons),
    ):
        if parts:
            yield f"{option}={parts[0].name if len(parts) == 1 else option}"
    if draft.owned:
        yield f"owns=[{', '.join(draft.owned)}]"
    others = sorted({of for _, of in draft.indexes.values()} - {draft.kind, *draft.owned})
    if others:
        yield f"reads=[{', '.join(others)}]"
    if draft.indexes:
        entries = ", ".join(
            f"{_literal(key)}: Index({of}, {part.name})" for key, (part, of) in draft.indexes.items()
        )
        yield f"indexes={{{entries}}}"
    if draft.every is not None:
        yield f"every={draft.every}"
    if draft.selector:
        yield f'selector="{draft.selector}"'
    if draft.admits:
        yield "admission=admission"
    if draft.domain:
        yield f'operator="{draft.domain}"'
    yield f"predecessor={'predecessor' if draft.stepped else _predecessor(draft, name, '    ')}"


def _predecessor(draft: Draft, name: str, indent: str = "") -> str:
    given = [f"{key}={_literal(value)}" for key, value in draft.operator.trace_names.items()]
    options = [f'"{name} on kopf",', *_DEPLOYMENTS, *(f"{one}," for one in (*given, "unwritten=UNWRITTEN"))]
    return "Predecessor.kopf(\n" + "".join(f"{indent}    {one}\n" for one in options) + f"{indent})"


def _literal(text: str) -> str:
    """The text in Python's source; a JSON string of ASCII is one."""
    return json.dumps(text)


def _admission(draft: Draft) -> str:
    kind = draft.kind
    names = ["Admission", "AdmissionRequest", *(["Refusal"] if draft.refusing else [])]
    lines = [
        f'"""What happens to a {kind} before it is stored: pure functions, a draft."""',
        "",
        *(["from collections.abc import Iterator", ""] if draft.refusing else []),
        *([_import_of_kind(draft)] if draft.domain else []),
        f"from reconcile.webhooks import {', '.join(names)}",
        *([] if draft.domain else ["", _import_of_kind(draft)]),
    ]
    for part in draft.completing:
        head = f"def {part.name}(wanted: {kind}, request: AdmissionRequest) -> {kind}:"
        lines += _function(head, part, "return wanted  # to be written")
    for part in draft.refusing:
        head = f"def {part.name}(wanted: {kind}, old: {kind} | None, request: AdmissionRequest)"
        lines += _function(f"{head} -> Iterator[Refusal]:", part, "yield from ()  # to be written")
    options = []
    if draft.completing:
        lines += ["", "", f"def defaults(wanted: {kind}, request: AdmissionRequest) -> {kind}:"]
        lines += ['    """The object as it should be stored."""']
        lines += [f"    wanted = {part.name}(wanted, request)" for part in draft.completing]
        lines += ["    return wanted"]
        options.append("defaults=defaults")
    if draft.refusing:
        head = f"def refuses(wanted: {kind}, old: {kind} | None, request: AdmissionRequest)"
        lines += ["", "", f"{head} -> Iterator[Refusal]:", '    """Why a write is refused."""']
        lines += [f"    yield from {part.name}(wanted, old, request)" for part in draft.refusing]
        options.append("refuses=refuses")
    lines += ["", "", f"admission = Admission({kind}, {', '.join(options)})"]
    return _text(lines)


def _main(draft: Draft) -> str:
    before = [part for part in draft.activities if "kopf.on.cleanup" not in part.decorators]
    after = [part for part in draft.activities if part not in before]
    lines = [
        f'"""Runs the operator: `python -m {draft.package}`, as `reconcile run {draft.package}` does."""',
        "",
        "import anyio",
        "",
        f"from {draft.package} import manager",
    ]
    for part in (*before, *after):
        lines += _function(f"def {part.name}() -> None:", part)
    lines += ["", "", "def main() -> None:", '    """Run until a signal."""']
    lines += [f"    {part.name}()" for part in before]
    lines += ["    anyio.run(manager.run)"]
    lines += [f"    {part.name}()" for part in after]
    lines += ["", "", 'if __name__ == "__main__":', "    main()"]
    return _text(lines)


def _tests(draft: Draft) -> str:
    kinds = [] if draft.domain else ["from reconcile.models import definition_of"]
    imports = [
        "import yaml",
        *kinds,
        "from reconcile.testing import Apply, FakeClient, Scenario, run_once, sweep",
        "",
        *([] if draft.domain else [_import_of_kind(draft)]),
        f"from {draft.package}.{draft.module('reconciler')} import controller",
    ]
    world = "SAMPLE" if draft.domain else f"definition_of({draft.kind}), SAMPLE"
    lines = "\n".join(imports)
    return f'''"""The operator's tests: the real client on a real API server in this process."""

from pathlib import Path
from typing import Any

{lines}

SAMPLE: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "{draft.sample}").read_text())
KEY = "/".join(filter(None, (SAMPLE["metadata"].get("namespace"), SAMPLE["metadata"]["name"])))
STORY = Scenario(controllers=lambda: controller, steps=[Apply(SAMPLE)])


async def test_an_object_converges() -> None:
    client = FakeClient({world})
    assert (await run_once(controller, KEY, client)).error is None
    assert (await run_once(controller, KEY, client)).writes == []


def test_it_survives_every_fault() -> None:
    """Every crash, lost answer and late event leads to the same end state."""
    sweep(STORY)
'''
