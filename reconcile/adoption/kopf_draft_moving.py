"""The page MOVING.md of a draft: where each function went, and the way over."""

from collections.abc import Iterator, Mapping, Sequence

from reconcile.adoption.kopf_draft import Draft, Part, settings_lines


def moving(drafts: Sequence[Draft]) -> str:
    """The text of MOVING.md for the drafts of one operator."""
    operator = drafts[0].operator
    lines = [
        "# From kopf",
        "",
        f"Drafted from {', '.join(operator.modules)} (kopf {operator.version}).",
        "Where each function went:",
        "",
        "| on kopf | here |",
        "|---|---|",
        *(f"| {place} | {here} |" for place, here in _where(drafts).items()),
    ]
    if operator.settings:
        lines += ["", "Settings:", "", *settings_lines(operator)]
    lines += _about_steps(drafts)
    lines += [
        "",
        "Take the name of each function out of `UNWRITTEN` when it is written: until then the operator does",
        "not start in a cluster with objects of the one on kopf. `reconcile run --dry-run` does, and shows",
        "what would be written.",
        *_way_over(drafts),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _way_over(drafts: Sequence[Draft]) -> Sequence[str]:
    """How the objects come over when all is written."""
    operator, package = drafts[0].operator, drafts[0].package
    code = " ".join(one if one.endswith(".py") else f"-m {one}" for one in operator.modules)
    return (
        "",
        "## The way over",
        "",
        "Check the names in `Predecessor.kopf(...)` of each reconciler, and add `deployments=`. Then, in the",
        "folder of its code, stop the operator on kopf while nothing is half done, start this one, and see",
        "what is left:",
        "",
        f"    reconcile adopt kopf audit {code}",
        f"    reconcile adopt kopf switch {code} --deployment NAMESPACE/NAME",
        f"    reconcile adopt kopf switch {code} --verify",
        "",
        "Or, where it signs in a peering object, replace it without a gap, by a rolling update: with",
        f"`reconcile run {package} --freeze-predecessor` this one has it pause, and begins.",
        "Back again: stop this one, then",
        "",
        f"    reconcile adopt kopf back {package} --dry-run",
    )


def _about_steps(drafts: Sequence[Draft]) -> Iterator[str]:
    """What became of sub-handlers, and what the steps need before the switch."""
    for draft in drafts:
        kind, stepped = draft.kind, draft.stepped
        if stepped:
            module, field = f"{draft.package}.{draft.module('models')}", draft.steps_field
            yield ""
            yield f"Sub-handlers of {_named(stepped)} of {kind} are steps: each is done once, and"
            yield f"recorded in `status.{field}`. On objects that kopf has handled they count as done."
            yield f"Apply the definition with that field before the switch: `reconcile crds {module}`."
        for part in stepped:
            if part.each:
                names = part.beside["names"]
                yield f"Those of `{part.name}` are known to a call of it alone: `{names}` has to name them."
        rest = [part for part in draft.reconciled if part.has_inner and part not in stepped]
        if rest:
            why = "the kind has no place for records" if draft.domain else "kopf called them at each start"
            yield from ("", f"Sub-handlers of {_named(rest)} of {kind} are called in each run: {why}.")


def _named(parts: Sequence[Part]) -> str:
    return ", ".join(f"`{part.name}`" for part in parts)


def _where(drafts: Sequence[Draft]) -> Mapping[str, str]:
    """What became of each function, by its place; those without a place in the draft come last."""
    placed: dict[str, list[str]] = {}
    for draft in drafts:
        for part in draft.parts:
            if part not in draft.left and (draft.first or part not in draft.activities):
                placed.setdefault(part.place, []).append(f"`{part.name}` in `{_file(draft, part)}`")
    found = {place: ", ".join(there) for place, there in placed.items()}
    for part in drafts[0].left:
        kind = drafts[0].owned_by(part)
        owned = f"`owns=[{kind}]` of the controller, or `watches=` where they are not its children"
        found.setdefault(part.place, owned if kind else f"not drafted: it is for {_resources(part)}")
    return found


def _file(draft: Draft, part: Part) -> str:
    if part in draft.activities:
        return f"{draft.package}/__main__.py"
    admits = part in (*draft.refusing, *draft.completing)
    return f"{draft.package}/{draft.module('admission' if admits else 'reconciler')}.py"


def _resources(part: Part) -> str:
    return ", ".join(dict.fromkeys(str(one.selector) for one in part.handlers))
