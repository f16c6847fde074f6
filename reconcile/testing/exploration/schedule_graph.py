"""The states and transitions of a world as far as they are known, and which of them need not be tried.

Sleep sets (Godefroid, 1996): of two transitions that commute only one order is tried. After a state has been
explored by one transition, that one sleeps in what the others lead to, until something happens that it does
not commute with. A state that is reached again is explored again only by what slept at every earlier visit
and does not sleep now, so that storing states loses no order.

Every state is reached, only transitions are saved. Persistent or source sets (Abdulla et al., POPL 2014)
would leave out states too, and with them moments at which an invariant does not hold.
"""

from collections.abc import Mapping, Sequence

from attrs import define, field

from reconcile.testing.exploration.schedule_state import Touched
from reconcile.testing.faults import Choice

END = b"end"
"""The state after the last step of a scenario."""

State = bytes
Label = str


@define(eq=False)
class Node:
    """A state: what is possible in it, where that leads as far as it was tried, and what sleeps."""

    state: State
    enabled: tuple[Label, ...]
    asleep: set[Label]
    departures: tuple[Choice, ...] = ()
    """How it was reached first."""
    edges: dict[Label, State | None] = field(factory=dict)
    """Where each transition leads; None until that is known."""
    around: dict[Label, list[tuple[State, Label]]] = field(factory=dict)
    """Why a transition sleeps: it leads to where the second one leads after it, from that state."""


@define(eq=False)
class Visit:
    """One exploration of a state, by the transitions `due`; the `asleep` ones are tried elsewhere."""

    node: Node
    asleep: Mapping[Label, Touched]
    due: Sequence[Label]
    tried: dict[Label, Touched] = field(factory=dict)

    def after(self, label: Label, touched: Touched) -> dict[Label, Touched]:
        """What sleeps in the state to which a transition leads."""
        others = {**self.asleep, **self.tried}
        sleeping = {one: other for one, other in others.items() if touched.commutes_with(other)}
        self.tried[label] = touched
        return sleeping


@define(eq=False)
class ScheduleGraph:
    """All states that were reached. With `reduced`, what commutes is tried in one order only."""

    reduced: bool = True
    nodes: dict[State, Node] = field(factory=dict, init=False)
    root: State | None = field(default=None, init=False)
    ends: set[State] = field(factory=set, init=False)
    """States from which the usual order leads to an end, though others were not seen to."""

    @property
    def transitions(self) -> int:
        """How many transitions were tried."""
        return sum(len(node.edges) for node in self.nodes.values())

    def arrive(
        self,
        state: State,
        enabled: Sequence[Label],
        sleeping: Mapping[Label, Touched],
        came_by: tuple[Node, Label] | None,
        departures: Sequence[Choice] = (),
    ) -> Visit:
        """Reach a state; the visit has what is to be tried there now, perhaps nothing."""
        if came_by is None:
            self.root = state
        else:
            before, label = came_by
            before.edges[label] = state
        possible = set(enabled)
        asleep = {label: touched for label, touched in sleeping.items() if label in possible and self.reduced}
        node = self.nodes.get(state)
        if node is None:
            node = self.nodes[state] = Node(state, tuple(enabled), set(asleep), tuple(departures))
            due = [label for label in enabled if label not in asleep]
        else:
            due = [label for label in enabled if label in node.asleep and label not in asleep]
            node.asleep &= asleep.keys()
            asleep = {label: asleep[label] for label in node.asleep}
        if came_by is not None:
            for label in asleep:
                node.around.setdefault(label, []).append((came_by[0].state, came_by[1]))
        return Visit(node, asleep, due)

    def endless(self) -> Node | None:
        """A state from which no schedule was seen to come to an end, with the fewest departures; or none."""
        before: dict[State, list[State]] = {}
        for node in self.nodes.values():
            for label in node.enabled:
                after = self._follow(node.state, label, frozenset())
                if after is not None:
                    before.setdefault(after, []).append(node.state)
        ending, left = {END, *self.ends}, [END, *self.ends]
        while left:
            found = [state for state in before.get(left.pop(), ()) if state not in ending]
            ending.update(found)
            left += found
        endless = [node for node in self.nodes.values() if node.state not in ending]
        return min(endless, key=lambda node: len(node.departures), default=None)

    # --- counting ---------------------------------------------------------------------------------

    def schedules(self) -> int | None:
        """How many schedules there are, also those that need not be tried; None if states recur.

        A transition that was left out leads to where the two lead in the other order.
        """
        if self.root is None:
            return 1
        counts: dict[State, int] = {END: 1}
        on_the_way: set[State] = set()
        stack = [self.root]
        while stack:
            state = stack[-1]
            if state in counts:
                stack.pop()
                continue
            followers = [self._follow(state, label, frozenset()) for label in self.nodes[state].enabled]
            if None in followers:
                return None
            unknown = [one for one in followers if one is not None and one not in counts]
            if not unknown:
                counts[state] = sum(counts[one] for one in followers if one is not None)
                on_the_way.discard(state)
                stack.pop()
            elif on_the_way.intersection(unknown):
                return None
            else:
                on_the_way.add(state)
                stack.append(unknown[0])
        return counts[self.root]

    def _follow(self, state: State, label: Label, asked: frozenset[tuple[State, Label]]) -> State | None:
        node = self.nodes.get(state)
        if node is None or (state, label) in asked:
            return None
        if label in node.edges:
            return node.edges[label]
        asked |= {(state, label)}
        for before, first in node.around.get(label, ()):
            between = self._follow(before, label, asked)
            if between is not None and (found := self._follow(between, first, asked)) is not None:
                return found
        return None
