"""Which peers in a peering object are alive, compared with kopf's own class of peers."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._core.engines import peering

from reconcile.predecessors.kopf_peers import MAX_LIFETIME, entry_of, pausing, peers_in

NOW = datetime.datetime(2026, 11, 23, 10, 0, 0, tzinfo=datetime.UTC)


@given(
    age=st.floats(-200, 200).filter(lambda age: min(abs(age - limit) for limit in (0, 10, 60)) > 5),
    lifetime=st.none() | st.sampled_from([0, 10, 60, 10**8]),
    zone=st.booleans(),
)
def test_a_peer_is_alive_when_kopf_takes_it_for_alive(age: float, lifetime: int | None, zone: bool) -> None:
    now = datetime.datetime.now(datetime.UTC)  # as kopf asks the system's clock
    seen = now - datetime.timedelta(seconds=age)
    entry: dict[str, Any] = {"lastseen": (seen if zone else seen.replace(tzinfo=None)).isoformat()}
    entry |= {} if lifetime is None else {"lifetime": lifetime}

    (peer,) = peers_in({"status": {"op": entry}})

    assert peer.is_alive(now) == (not peering.Peer(identity=peering.Identity("op"), **entry).is_dead)


def test_an_entry_that_cannot_be_read_counts_as_alive() -> None:
    entries = [
        {},
        {"lastseen": "soon"},
        {"lastseen": 5, "lifetime": "x", "priority": "y"},
        {"lifetime": 1e300},
    ]
    entries += [{"lifetime": 1e300}, {"lifetime": float("nan")}, {"priority": True, "lifetime": True}]
    peers = peers_in({"status": {str(index): entry for index, entry in enumerate(entries)}})

    assert len(peers) == len(entries)
    assert all(peer.is_alive(NOW) for peer in peers)
    assert {peer.priority for peer in peers} == {0}
    assert max(peer.lifetime for peer in peers) == MAX_LIFETIME


@pytest.mark.parametrize("status", [None, [], "x", {"a": None}, {"a": "b"}, {1: {}}])
def test_a_status_of_another_shape_has_no_peers(status: Any) -> None:
    assert peers_in({"status": status}) == ()


def test_others_pause_only_while_our_entry_holds_and_is_above_all_of_theirs() -> None:
    def peers(ours: int, *theirs: int) -> Any:
        entries = {str(index): entry_of(priority, 60, NOW) for index, priority in enumerate(theirs)}
        return peers_in({"status": {"us": entry_of(ours, 60, NOW), **entries}})

    later = NOW + datetime.timedelta(seconds=61)
    assert pausing(peers(100, 0, 5), "us", NOW)
    assert not pausing(peers(100, 0, 100), "us", NOW)
    assert not pausing(peers(100, 666), "us", NOW)
    assert not pausing(peers(100, 0), "nobody", NOW)
    assert not pausing(peers(100, 0), "us", later)
