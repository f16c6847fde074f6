"""The reflector's state machine, as tables."""

import json

import pytest

from informers import (
    Expired,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ServerError,
    Snapshot,
    TooManyRequests,
    Unreachable,
)
from informers.reflector import (
    BookmarkRead,
    Commit,
    DropStage,
    EventRead,
    Failed,
    Input,
    Listing,
    Output,
    PageRead,
    Put,
    Reach,
    Remove,
    Rested,
    Resting,
    Stage,
    State,
    StreamEnded,
    Watching,
    rest,
    step,
)


def at(version: int) -> Snapshot:
    return Snapshot.from_json(
        json.dumps({"metadata": {"name": "a", "resourceVersion": str(version)}}).encode()
    )


EXPIRED = Expired(410, "Expired", "too old")
BUSY = TooManyRequests(429, "TooManyRequests", "busy", retry_after=7)
BROKEN = ServerError(500, "InternalError", "no")
MISSING = NotFound(404, "NotFound", "no such resource")
REFUSED = Forbidden(403, "Forbidden", "no")
DOWN = Unreachable("connection refused")
CUT = OutcomeUnknown("reset")

TABLE: list[tuple[str, State, Input, State, tuple[Output, ...]]] = [
    (
        "the last page starts the watch",
        Listing(),
        PageRead([at(3)], 9),
        Watching(9),
        (Stage([at(3)]), Commit(9)),
    ),
    (
        "a page with a token asks for the next",
        Listing(),
        PageRead([at(3)], 9, "t"),
        Listing("t"),
        (Stage([at(3)]),),
    ),
    ("the list failed", Listing(), Failed(BROKEN), Resting(0.8, Listing(failures=1)), (DropStage(),)),
    ("it failed again", Listing(failures=1), Failed(DOWN), Resting(1.6, Listing(failures=2)), (DropStage(),)),
    ("a page token expired", Listing("t"), Failed(EXPIRED), Listing(), (DropStage(),)),
    ("an addition", Watching(5), EventRead("ADDED", at(6)), Watching(6), (Put(at(6)),)),
    ("a change", Watching(5, failures=2), EventRead("MODIFIED", at(6)), Watching(6), (Put(at(6)),)),
    ("a deletion", Watching(5), EventRead("DELETED", at(6)), Watching(6), (Remove(at(6)),)),
    ("a bookmark", Watching(5), BookmarkRead(8), Watching(8), (Reach(8),)),
    ("a normal end resumes without a list", Watching(5), StreamEnded(300, 0), Watching(5), ()),
    ("an end after events resumes at once", Watching(5), StreamEnded(0.1, 3), Watching(5), ()),
    ("an end at once rests first", Watching(5), StreamEnded(0.1, 0), Resting(0.8, Watching(5, empty=1)), ()),
    ("many such ends are expiry", Watching(5, empty=2), StreamEnded(0.1, 0), Resting(6.4, Listing()), ()),
    ("expiry lists at once", Watching(5), Failed(EXPIRED), Listing(), ()),
    ("429 rests as told, no list", Watching(5), Failed(BUSY), Resting(7, Watching(5, failures=1)), ()),
    ("no connection, no list", Watching(5), Failed(DOWN), Resting(0.8, Watching(5, failures=1)), ()),
    ("a cut stream resumes", Watching(5), Failed(CUT), Resting(0.8, Watching(5, failures=1)), ()),
    ("a server error resumes", Watching(5), Failed(BROKEN), Resting(0.8, Watching(5, failures=1)), ()),
    (
        "health clears failures",
        Watching(5, 4),
        Failed(CUT, seconds=200),
        Resting(0.8, Watching(5, failures=1)),
        (),
    ),
    (
        "a missing resource is listed anew",
        Watching(5),
        Failed(MISSING),
        Resting(0.8, Listing(failures=1)),
        (),
    ),
    ("forbidden is listed anew", Watching(5), Failed(REFUSED), Resting(0.8, Listing(failures=1)), ()),
    ("garbage is listed anew", Watching(5), Failed(ValueError()), Resting(0.8, Listing(failures=1)), ()),
    ("after the rest it goes on", Resting(3, Watching(5)), Rested(), Watching(5), ()),
]


@pytest.mark.rule("inv-17")
@pytest.mark.rule("inv-18")
@pytest.mark.rule("inv-20")
@pytest.mark.parametrize(
    ("state", "given", "then", "outputs"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_a_step(state: State, given: Input, then: State, outputs: tuple[Output, ...]) -> None:
    assert step(state, given) == (then, outputs)


@pytest.mark.rule("inv-19")
def test_rests_double_up_to_thirty_seconds_and_jitter_at_most_doubles_them() -> None:
    assert [rest(n, 0.0) for n in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert rest(7, 1.0) == 60


def test_an_older_event_never_takes_the_version_back() -> None:
    state, _ = step(Watching(9), EventRead("ADDED", at(3)))
    assert state == Watching(9)


def test_an_input_out_of_place_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="Rested does not fit Listing"):
        step(Listing(), Rested())
