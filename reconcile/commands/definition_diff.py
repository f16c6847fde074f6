"""Compares the definitions of an operator with those of a cluster, and says what stored objects say of it."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import asdict, frozen

from informers import ApiError, NotFound, SystemClock
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import connect
from reconcile.client.sender import Sender, json_object
from reconcile.commands.problems import Problem
from reconcile.models.definition_changes import DefinitionChange
from reconcile.webhooks.definition_proof import DefinitionProof, prove
from reconcile.webhooks.definition_rollout import DEFINITIONS
from reconcile.webhooks.migration_plan import Change, Refused, next_step
from reconcile.webhooks.stored_objects import NAMED
from reconcile.webhooks.wanted_definitions import WantedDefinition

_MARKS = {"additive": "+", "narrowing": "-", "unknown": "?"}


@frozen
class DefinitionDiff:
    """How a definition differs from the one that is installed; `proof` is None where there is none yet."""

    name: str
    proof: DefinitionProof | None = None
    stored_versions: Sequence[str] = ()
    problem: str = ""
    """Why it would be refused, with the next step; empty if it would not."""

    def to_json(self) -> Mapping[str, Any]:
        proof = self.proof or DefinitionProof(self.name, ())
        return {
            "definition": self.name,
            "installed": self.proof is not None,
            "storedVersions": list(self.stored_versions),
            "changes": [asdict(change) for change in proof.changes],
            "read": proof.read,
            "unfit": proof.unfit,
            "misfits": [asdict(misfit) for misfit in proof.misfits],
            "refused": self.problem,
        }

    def lines(self) -> Iterator[str]:
        if self.proof is None:
            yield f"{self.name}: is new"
            return
        stored = f"stored as {', '.join(self.stored_versions)}"
        changes = self.proof.changes
        yield f"{self.name}, {stored}: {_counted(len(changes), 'change') if changes else 'no changes'}"
        yield from (f"  {_MARKS[change.effect]} {change}{_proof_of(change)}" for change in changes)
        if self.proof.read:
            yield f"  {_counted(self.proof.read, 'object')} read, {self.proof.unfit} would not fit"
        yield from (f"    {misfit}" for misfit in self.proof.misfits)
        if self.proof.unfit > NAMED:
            yield f"    and {self.proof.unfit - NAMED} more"
        if self.problem:
            yield f"  refused: {self.problem}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _proof_of(change: DefinitionChange) -> str:
    if change.proof == "impossible":
        return " (impossible)"
    return " (objects decide)" if change.reads else ""


@frozen
class Cluster:
    """The cluster of a kubeconfig, as the options of a command name it."""

    kubeconfig: str | None = None
    context: str | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Sender]:
        """Raises Problem, also for what the cluster answers inside."""
        try:
            transport = await connect(self.kubeconfig, self.context)
            try:
                yield Sender(transport, SystemClock())
            finally:
                with anyio.CancelScope(shield=True):
                    await transport.aclose()
        except ConfigurationProblem as problem:
            raise Problem(str(problem), "name another with --kubeconfig") from None
        except ApiError as error:
            raise Problem(str(error)) from None


async def differences(cluster: Cluster, wanted: Sequence[WantedDefinition]) -> Sequence[DefinitionDiff]:
    """What it means to apply the definitions that `reconcile crds` prints. Raises Problem."""
    async with cluster.connected() as sender:
        return [await replaced(sender, one) for one in wanted]


async def found(sender: Sender, path: str) -> Mapping[str, Any] | None:
    """An object; None if there is none. Raises ApiError."""
    try:
        return await sender.send("GET", path, json_object)
    except NotFound:
        return None


async def replaced(sender: Sender, wanted: WantedDefinition) -> DefinitionDiff:
    """What it means to apply the definition that `reconcile crds` prints. Raises ApiError."""
    installed = await found(sender, f"{DEFINITIONS}/{wanted.name}")
    if installed is None:
        return DefinitionDiff(wanted.name)
    return await _proven(sender, wanted, installed, _with_conversion(wanted, installed))


async def rolled_out(sender: Sender, wanted: WantedDefinition) -> DefinitionDiff:
    """What it means to start an operator with `definitions="apply"`. Raises ApiError."""
    installed = await found(sender, f"{DEFINITIONS}/{wanted.name}")
    step = next_step(wanted, installed)
    if installed is None:
        return DefinitionDiff(wanted.name, problem=step.problem if isinstance(step, Refused) else "")
    spec = step.spec if isinstance(step, Change) and step.serves else installed["spec"]
    diff = await _proven(sender, wanted, installed, {**installed, "spec": spec})
    if isinstance(step, Refused):
        return DefinitionDiff(diff.name, diff.proof, diff.stored_versions, step.problem)
    return diff


async def _proven(
    sender: Sender, wanted: WantedDefinition, installed: Mapping[str, Any], new: Mapping[str, Any]
) -> DefinitionDiff:
    proof = await prove(sender, installed, new)
    stored = (installed.get("status") or {}).get("storedVersions") or ()
    return DefinitionDiff(wanted.name, proof, stored, proof.problem)


def _with_conversion(wanted: WantedDefinition, installed: Mapping[str, Any]) -> Mapping[str, Any]:
    """The new definition; without a webhook of its own it keeps the one that is installed."""
    if not wanted.convertible or wanted.webhook is not None or "conversion" not in installed["spec"]:
        return wanted.body
    return {**wanted.body, "spec": {**wanted.body["spec"], "conversion": installed["spec"]["conversion"]}}
