"""What must never be, judged line by line from what the server wrote down, and at rest."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from tests.chaos.fleet_operator import COUNTER, GENERATED, NAMED, TEXT, is_held, text_of
from tests.chaos.lying_proxy import LATE
from tests.processes.recording_server import Asked

PER_SECOND = 160
"""Requests of one replica in a second: a burst of 100 and 50 a second (`client_burst`, `client_qps`), and its
informers and its Lease."""


@define
class Judge:
    """Takes each request and each state in the server's order, and keeps what it needs of them.

    `violations` are sentences. `late` counts writes that the proxy delayed on purpose, and that were
    therefore not judged by who led.
    """

    replicas: Sequence[str]
    violations: list[str] = field(factory=list, init=False)
    requests: int = field(default=0, init=False)
    writes: int = field(default=0, init=False)
    late: int = field(default=0, init=False)
    fleets: dict[str, dict[str, Any]] = field(factory=dict, init=False)
    """Those that are there, by uid."""
    ever: set[str] = field(factory=set, init=False)
    """The uid of each Fleet that ever was."""
    _children: dict[tuple[str, str], dict[str, Any]] = field(factory=dict, init=False)
    _slots: dict[tuple[str, str], set[str]] = field(factory=dict, init=False)
    _numbers: dict[str, int] = field(factory=dict, init=False)
    _busiest: Counter[tuple[str, int]] = field(factory=Counter, init=False)

    # --- requests ----------------------------------------------------------------------------------

    def asked(self, asked: Asked) -> None:
        """One request of a log of the server."""
        if asked.user not in self.replicas:
            return
        self.requests += 1
        self._busiest[asked.user, int(asked.at)] += 1
        if self._busiest[asked.user, int(asked.at)] == PER_SECOND + 1:
            self.violations.append(
                f"{asked.user} sent more than {PER_SECOND} requests in second {asked.at:.0f}"
            )
        if not asked.writes or asked.election:
            return
        self.writes += 1
        if asked.tag == LATE:
            self.late += 1
        elif asked.leader != asked.user:
            self.violations.append(
                f"{asked.user} wrote while {asked.leader or 'no replica'} led: {asked.method} {asked.path} "
                f"({asked.status}) at {asked.at:.3f}"
            )

    @property
    def busiest_second(self) -> int:
        return max(self._busiest.values(), default=0)

    # --- states ------------------------------------------------------------------------------------

    def changed(self, at: float, plural: str, gone: bool, obj: Mapping[str, Any]) -> None:
        """One state that an object has reached, or its last one."""
        uid = obj["metadata"]["uid"]
        if plural == "fleets":
            self._note_fleet(uid, gone, obj)
        owner = next((ref["uid"] for ref in obj["metadata"].get("ownerReferences", ())), "")
        if plural not in ("configmaps", "deployments") or not owner:
            return
        if gone:
            self._children.pop((plural, uid), None)
        else:
            self._children[plural, uid] = dict(obj)
        self._judge_slot(at, owner, uid, gone, obj)
        number = _number(plural, obj)
        if number is not None:
            self._judge_number(at, owner, uid, gone, number)

    def _note_fleet(self, uid: str, gone: bool, obj: Mapping[str, Any]) -> None:
        self.ever.add(uid)
        if gone:
            self.fleets.pop(uid, None)
        else:
            self.fleets[uid] = dict(obj)

    def _judge_slot(self, at: float, owner: str, uid: str, gone: bool, obj: Mapping[str, Any]) -> None:
        labels = obj["metadata"].get("labels", {})
        if labels.get("part") != GENERATED:
            return
        slot = self._slots.setdefault((owner, labels["slot"]), set())
        before = len(slot)
        if gone or "deletionTimestamp" in obj["metadata"]:
            slot.discard(uid)
        else:
            slot.add(uid)
        if len(slot) > max(1, before):
            self.violations.append(f"{len(slot)} children for slot {labels['slot']} of {owner} at {at:.3f}")

    def _judge_number(self, at: float, owner: str, uid: str, gone: bool, number: int) -> None:
        before = self._numbers.get(uid)
        if gone:
            self._numbers.pop(uid, None)
            return
        self._numbers[uid] = number
        fleet = self.fleets.get(owner)
        if fleet is not None and number > fleet["spec"].get("goal", 0):
            self.violations.append(f"{number} of {fleet['spec'].get('goal', 0)} for {owner} at {at:.3f}")
        if before is not None and number not in (before, before + 1):
            self.violations.append(f"a number of {owner} went from {before} to {number} at {at:.3f}")

    # --- at rest -----------------------------------------------------------------------------------

    def amiss(self, outside: Path) -> list[str]:
        """What is lost or left behind now, in sentences; nothing of it may be once everything rests."""
        fleets = [fleet["metadata"] for fleet in self.fleets.values()]
        found = [f"Fleet {fleet['name']} does not go" for fleet in fleets if "deletionTimestamp" in fleet]
        owned: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for (plural, _), child in self._children.items():
            owned.setdefault(child["metadata"]["ownerReferences"][0]["uid"], []).append((plural, child))
        for uid in owned.keys() - self.fleets.keys():
            found += [f"{plural} {child['metadata']['name']} is left behind" for plural, child in owned[uid]]
        for uid, fleet in self.fleets.items():
            found += self._missing_of(fleet, owned.get(uid, []))
            if not is_held(outside / uid):
                found.append(f"nothing outside is held for {fleet['metadata']['name']}")
        for path in outside.iterdir():
            if path.name not in self.fleets and is_held(path):
                found.append(f"{path.name} is still held outside")
        return found

    def _missing_of(self, fleet: dict[str, Any], owned: list[tuple[str, dict[str, Any]]]) -> list[str]:
        name, spec = fleet["metadata"]["name"], fleet["spec"]
        slots = sorted(str(slot) for slot in range(spec.get("slots", 0)))
        parts: dict[str, list[dict[str, Any]]] = {}
        for plural, child in owned:
            part = child["metadata"].get("labels", {}).get("part", "") if plural == "configmaps" else plural
            parts.setdefault(part, []).append(child)
        found = []
        for part in (GENERATED, NAMED):
            filled = sorted(child["metadata"]["labels"]["slot"] for child in parts.get(part, ()))
            if filled != slots:
                found.append(f"{name} has {part} children in slots {filled}, expected {slots}")
        texts = [_applied_text(child) for child in parts.get(TEXT, ())]
        if texts != [text_of(spec.get("revision", 0))]:
            found.append(f"{name} has the texts {texts}, expected revision {spec.get('revision', 0)}")
        for part in (COUNTER, "deployments"):
            plural = part if part == "deployments" else "configmaps"
            numbers = [_number(plural, child) for child in parts.get(part, ())]
            if numbers != [spec.get("goal", 0)]:
                found.append(f"{name} has counted {numbers} in {part}, expected {spec.get('goal', 0)}")
        status = fleet.get("status", {})
        if (status.get("slots", 0), status.get("revision")) != (
            spec.get("slots", 0),
            spec.get("revision", 0),
        ):
            found.append(f"{name} says {status}, expected {spec}")
        return found


def _number(plural: str, obj: Mapping[str, Any]) -> int | None:
    if plural == "deployments":
        return int(obj["spec"].get("replicas", 0))
    if obj["metadata"].get("labels", {}).get("part") == COUNTER:
        return int(obj["data"]["count"])
    return None


def _applied_text(child: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in child.get("data", {}).items() if name != "by-hand"}


@define
class Tail:
    """The whole lines of a file that have not been read yet."""

    path: Path
    _at: int = field(default=0, init=False)

    def lines(self) -> Iterable[Any]:
        with self.path.open("rb") as file:
            file.seek(self._at)
            while (line := file.readline()).endswith(b"\n"):
                self._at += len(line)
                yield json.loads(line)
