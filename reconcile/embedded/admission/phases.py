"""The two phases of admission: mutating plugins, one after the other, and then validating ones.

A plugin is what a real server calls an admission plugin: all webhooks of a sort, or all policies of a sort.
`Engine.phases` has them in the order in which they run, policies before webhooks. To add one, implement
`MutatingPlugin` or `ValidatingPlugin` and insert it there (`ApiServer` does). The verbs run the phases: the
mutating one once an object is defaulted and its managed fields are tracked, the validating one once it has
passed every check, and for a DELETE both after its preconditions.

Objects are the request's version of the resource. A plugin raises ApiFailure to refuse a request.
"""

from collections.abc import Hashable
from typing import Any, Protocol

from attrs import define, field

from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.schema.json_values import same


class ValidatingPlugin(Protocol):
    """Refuses requests."""

    def in_force(self) -> bool:
        """Whether any configuration is stored. Asked for every write, so it must cost next to nothing."""
        ...

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raises ApiFailure to refuse."""
        ...


class MutatingPlugin(Protocol):
    """Changes and refuses requests."""

    def in_force(self) -> bool:
        """As in `ValidatingPlugin`."""
        ...

    async def admit(self, attributes: AdmissionAttributes, rounds: "Rounds") -> None:
        """Put a changed object into `attributes.object`. Raises ApiFailure to refuse.

        For each webhook or policy that runs it asks `rounds.calls` and reports `rounds.called`.
        """
        ...


@define
class Reinvocations:
    """Which webhooks or policies of one plugin the further round calls (webhookReinvokeContext)."""

    _called: set[Hashable] = field(factory=set)
    _due: set[Hashable] = field(factory=set)
    _left: dict[str, Any] | None = None

    def call_again(self) -> None:
        """Something changed the object: those that were called so far are due."""
        self._due |= self._called
        self._called.clear()


@define
class Rounds:
    """The rounds of the mutating phase for one request: there is a second one if the first changed something.

    In it only those are called again that ask for it (`reinvocationPolicy: IfNeeded`), were called in the
    first round, and after which something else changed the object.
    """

    again: bool = False
    """Whether this is the second round."""
    changed: bool = False
    """Whether anything changed the object."""
    _plugins: dict[str, Reinvocations] = field(factory=dict)

    def enter(self, plugin: str, obj: dict[str, Any] | None) -> None:
        """The plugin of this name begins its round with `obj`."""
        mine = self._plugins.setdefault(plugin, Reinvocations())
        if self.again and not same(mine._left, obj):
            mine.call_again()

    def leave(self, plugin: str, obj: dict[str, Any] | None) -> None:
        """It ends its round with `obj`."""
        self._plugins[plugin]._left = obj

    def calls(self, plugin: str, key: Hashable) -> bool:
        """Whether the webhook or policy `key` of a plugin is to be called, if it matches."""
        return not self.again or key in self._plugins[plugin]._due

    def called(self, plugin: str, key: Hashable, *, changed: bool, if_needed: bool) -> None:
        """It was called; `if_needed` says that it wants to see later changes of others."""
        mine = self._plugins[plugin]
        if changed:
            mine.call_again()
            self.changed = True
        if if_needed:
            mine._called.add(key)


@define
class Phases:
    """The plugins of a server."""

    mutating: list[MutatingPlugin] = field(factory=list)
    validating: list[ValidatingPlugin] = field(factory=list)

    @property
    def mutates(self) -> bool:
        """Whether there is anything that may change a request."""
        return any(plugin.in_force() for plugin in self.mutating)

    @property
    def validates(self) -> bool:
        """Whether there is anything that may refuse a request in the second phase."""
        return any(plugin.in_force() for plugin in self.validating)

    async def mutate(self, attributes: AdmissionAttributes) -> bool:
        """Run the mutating phase, and say whether it changed the object. Raises ApiFailure if refused."""
        rounds, before = Rounds(), attributes.object
        await self._round(attributes, rounds)
        if rounds.changed:
            rounds.again = True
            await self._round(attributes, rounds)
        return attributes.object is not before

    async def _round(self, attributes: AdmissionAttributes, rounds: Rounds) -> None:
        for plugin in self.mutating:
            if plugin.in_force():
                await plugin.admit(attributes, rounds)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Run the validating phase. Raises ApiFailure if refused; the plugins after that are not asked."""
        for plugin in self.validating:
            if plugin.in_force():
                await plugin.validate(attributes)
