"""The reflector's state machine, as tables."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import (
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    ServerTimeout,
    Snapshot,
    StatusCause,
    TooManyRequests,
    Unreachable,
)
from informers.reflector_state import (
    BookmarkRead,
    Clear,
    Commit,
    DropStage,
    EventRead,
    Input,
    ItemsRead,
    Listing,
    Output,
    PageRead,
    Put,
    Reach,
    Remove,
    RequestFailed,
    Rested,
    Resting,
    StageObjects,
    State,
    StreamEnded,
    Streaming,
    UnstageObject,
    Watching,
    begun_again,
    is_gone,
    rest,
    step,
)


def at(version: int) -> Snapshot:
    return Snapshot.from_json(
        json.dumps({"metadata": {"name": "a", "resourceVersion": str(version)}}).encode()
    )


def plain(output: Output) -> str:
    """As it is shown, with what is staged as a tuple."""
    return repr(StageObjects(tuple(output.snapshots)) if isinstance(output, StageObjects) else output)


EXPIRED = Expired(410, "Expired", "too old")
BUSY = TooManyRequests(429, "TooManyRequests", "busy", retry_after=7)
BROKEN = ServerError(500, "InternalError", "no")
MISSING = NotFound(404, "NotFound", "no such resource")
REFUSED = Forbidden(403, "Forbidden", "no")
UNSUPPORTED = Invalid(422, "Invalid", "sendInitialEvents is forbidden for watch")
AHEAD = ServerTimeout(504, "Timeout", "no", causes=(StatusCause("ResourceVersionTooLarge"),), retry_after=1)
DOWN = Unreachable("connection refused")
CUT = OutcomeUnknown("reset")

TABLE: list[tuple[str, State, Input, State, tuple[Output, ...]]] = [
    # --- a streaming list
    (
        "the first state is collected",
        Streaming(),
        EventRead("ADDED", at(6)),
        Streaming(),
        (StageObjects([at(6)]),),
    ),
    ("many at once", Streaming(), ItemsRead([at(6), at(3)]), Streaming(), (StageObjects([at(6), at(3)]),)),
    ("also changed", Streaming(), EventRead("MODIFIED", at(7)), Streaming(), (StageObjects([at(7)]),)),
    ("also gone", Streaming(), EventRead("DELETED", at(8)), Streaming(), (UnstageObject(at(8).key),)),
    ("a bookmark on the way says nothing", Streaming(), BookmarkRead(9), Streaming(), ()),
    ("that of the end does", Streaming(2), BookmarkRead(9, True), Watching(9, 2), (Commit(9),)),
    ("refused, pages at once", Streaming(), RequestFailed(UNSUPPORTED), Listing(), (DropStage(),)),
    ("forbidden, pages say more", Streaming(), RequestFailed(REFUSED), Listing(), (DropStage(),)),
    ("it never ended, pages", Streaming(1), StreamEnded(300, 9), Listing(failures=1), (DropStage(),)),
    ("busy", Streaming(), RequestFailed(BUSY), Resting(7, Listing(failures=1)), (DropStage(),)),
    ("cut on the way", Streaming(1), RequestFailed(CUT), Resting(1.6, Listing(failures=2)), (DropStage(),)),
    # --- a paged list
    ("items of a page", Listing(), ItemsRead([at(3)]), Listing(), (StageObjects([at(3)]),)),
    ("the last page starts the watch", Listing(failures=1), PageRead(9), Watching(9, 1), (Commit(9),)),
    ("a page with a token asks for the next", Listing(), PageRead(9, "t"), Listing("t"), ()),
    ("a later page after failures", Listing("t", 2), PageRead(9, "u"), Listing("u", 2), ()),
    ("busy with lists", Listing(), RequestFailed(BUSY), Resting(7, Listing(failures=1)), (DropStage(),)),
    ("the list failed", Listing(), RequestFailed(BROKEN), Resting(0.8, Listing(failures=1)), (DropStage(),)),
    (
        "it failed again",
        Listing(failures=1),
        RequestFailed(DOWN),
        Resting(1.6, Listing(failures=2)),
        (DropStage(),),
    ),
    ("a page token expired", Listing("t"), RequestFailed(EXPIRED), Listing(failures=1), (DropStage(),)),
    (
        "it expires each time",
        Listing("t", failures=1),
        RequestFailed(EXPIRED),
        Resting(1.6, Listing(failures=2)),
        (DropStage(),),
    ),
    ("a 404", Listing(), RequestFailed(MISSING), Resting(0.8, Listing("", 1, 1)), (DropStage(),)),
    ("a second 404", Listing("", 1, 1), RequestFailed(MISSING), Resting(1.6, Listing("", 2, 2)), (Clear(),)),
    (
        "a third 404",
        Listing("", 2, 2),
        RequestFailed(MISSING),
        Resting(3.2, Listing("", 3, 3)),
        (DropStage(),),
    ),
    (
        "a 404 between",
        Listing("", 1, 1),
        RequestFailed(BROKEN),
        Resting(1.6, Listing("", 2, 0)),
        (DropStage(),),
    ),
    # --- a watch
    ("an addition", Watching(5), EventRead("ADDED", at(6)), Watching(6), (Put(at(6)),)),
    ("a change", Watching(5, 2), EventRead("MODIFIED", at(6)), Watching(6, 2), (Put(at(6)),)),
    ("a deletion", Watching(5), EventRead("DELETED", at(6)), Watching(6), (Remove(at(6)),)),
    ("the same again", Watching(6), EventRead("MODIFIED", at(6)), Watching(6), ()),
    ("a late deletion", Watching(9), EventRead("DELETED", at(6)), Watching(9), (Remove(at(6)),)),
    ("gone back", Watching(9), EventRead("ADDED", at(3)), Resting(0.8, Listing(failures=1)), ()),
    ("a bookmark", Watching(5), BookmarkRead(8), Watching(8), (Reach(8),)),
    ("a bookmark that says the same", Watching(8), BookmarkRead(8), Watching(8), (Reach(8),)),
    ("a bookmark clears nothing", Watching(5, 2, 1), BookmarkRead(8), Watching(8, 2, 1), (Reach(8),)),
    ("a bookmark gone back", Watching(9, 1), BookmarkRead(8), Resting(1.6, Listing(failures=2)), ()),
    ("the server is behind", Watching(9), RequestFailed(AHEAD), Resting(1, Listing(failures=1)), ()),
    ("a normal end resumes", Watching(5, 2), StreamEnded(300, 0, 0.5), Resting(0.5, Watching(5)), ()),
    ("a sooner end too", Watching(5, 2), StreamEnded(9, 0, 0.5), Resting(0.5, Watching(5, 2)), ()),
    ("the soonest", Watching(5, 2), StreamEnded(1.0, 0, 0.5), Resting(0.5, Watching(5, 2)), ()),
    ("just healthy", Watching(5, 2), StreamEnded(120.0, 0, 0.5), Resting(0.5, Watching(5)), ()),
    ("an end at once rests", Watching(5), StreamEnded(0.1, 3), Resting(0.8, Watching(5, 1)), ()),
    ("without events", Watching(5), StreamEnded(0.1, 0), Resting(0.8, Watching(5, 1, empty=1)), ()),
    ("broken, after empty ones", Watching(5, 0, 2), RequestFailed(DOWN), Resting(0.8, Watching(5, 1, 2)), ()),
    ("many such ends are expiry", Watching(5, 2, 2), StreamEnded(0.1, 0), Resting(3.2, Streaming(3)), ()),
    ("expiry lists at once", Watching(5), RequestFailed(EXPIRED), Streaming(1), ()),
    ("expiry again rests", Watching(5, 1), RequestFailed(EXPIRED), Resting(1.6, Streaming(2)), ()),
    ("429 rests as told, no list", Watching(5), RequestFailed(BUSY), Resting(7, Watching(5, failures=1)), ()),
    ("no connection, no list", Watching(5), RequestFailed(DOWN), Resting(0.8, Watching(5, failures=1)), ()),
    ("a cut stream resumes", Watching(5), RequestFailed(CUT), Resting(0.8, Watching(5, failures=1)), ()),
    ("a server error resumes", Watching(5), RequestFailed(BROKEN), Resting(0.8, Watching(5, failures=1)), ()),
    (
        "health clears failures",
        Watching(5, 4),
        RequestFailed(CUT, seconds=200),
        Resting(0.8, Watching(5, 1)),
        (),
    ),
    ("just enough", Watching(5, 4), RequestFailed(CUT, seconds=120.0), Resting(0.8, Watching(5, 1)), ()),
    ("not quite", Watching(5, 1), RequestFailed(CUT, seconds=119.9), Resting(1.6, Watching(5, 2)), ()),
    (
        "a missing resource is listed",
        Watching(5),
        RequestFailed(MISSING),
        Resting(0.8, Listing(failures=1)),
        (),
    ),
    ("forbidden is listed anew", Watching(5), RequestFailed(REFUSED), Resting(0.8, Listing(failures=1)), ()),
    (
        "garbage is listed anew",
        Watching(5),
        RequestFailed(ValueError()),
        Resting(0.8, Listing(failures=1)),
        (),
    ),
    ("after the rest it goes on", Resting(3, Watching(5)), Rested(), Watching(5), ()),
]


@pytest.mark.rule("inv-17", "inv-18", "inv-20")
@pytest.mark.parametrize(
    ("state", "came", "then", "outputs"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_a_step_has_the_expected_state_and_outputs(
    state: State, came: Input, then: State, outputs: tuple[Output, ...]
) -> None:
    after, done = step(state, came)
    assert (after, tuple(map(plain, done))) == (then, tuple(map(plain, outputs)))


@pytest.mark.rule("inv-19")
def test_delays_double_up_to_thirty_seconds_and_jitter_at_most_doubles_them() -> None:
    assert [rest(n, 0.0) for n in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert rest(7, 1.0) == 60
    assert rest(5000, 0.0) == 30


INPUTS = st.one_of(
    st.builds(EventRead, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.integers(1, 20).map(at)),
    st.builds(BookmarkRead, st.integers(1, 20), st.booleans()),
    st.builds(StreamEnded, st.floats(0, 300), st.integers(0, 2)),
    st.builds(
        RequestFailed, st.sampled_from([EXPIRED, BUSY, BROKEN, MISSING, AHEAD, DOWN, CUT, ValueError()])
    ),
    st.just(PageRead(9)),
    st.just(PageRead(9, "t")),
    st.just(Rested()),
)


@pytest.mark.rule("inv-19")
@given(st.lists(INPUTS, max_size=60))
def test_no_server_gets_more_than_three_requests_without_a_delay(inputs: list[Input]) -> None:
    state: State = Watching(5)
    requests = 0
    for given_ in inputs:
        try:
            after, _ = step(state, given_)
        except TypeError:
            continue
        ended = isinstance(given_, StreamEnded | RequestFailed)
        requests = 0 if isinstance(after, Resting) else requests + ended
        # A refused streaming list, an expired page, an expired version: each at once, each but once.
        assert requests <= 3
        state = after


SOME: list[Input] = [
    ItemsRead([at(3)]), PageRead(9), EventRead("ADDED", at(6)), BookmarkRead(8), StreamEnded(9, 0),
    RequestFailed(DOWN), Rested(),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "fitting"),
    [
        (Streaming(), (ItemsRead, EventRead, BookmarkRead, StreamEnded, RequestFailed)),
        (Listing(), (ItemsRead, PageRead, RequestFailed)),
        (Watching(5), (EventRead, BookmarkRead, StreamEnded, RequestFailed)),
        (Resting(3, Watching(5)), (Rested,)),
    ],
)
def test_an_input_that_does_not_fit_the_state_is_a_type_error(
    state: State, fitting: tuple[type, ...]
) -> None:
    for came in SOME:
        if isinstance(came, fitting):
            step(state, came)
            continue
        said = f"^{type(came).__name__} does not fit {type(state).__name__}$"
        with pytest.raises(TypeError, match=said):
            step(state, came)


@pytest.mark.parametrize(
    ("state", "after", "gone"),
    [
        (Streaming(2), Streaming(2), False),
        (Watching(5, 1), Watching(5, 1), False),
        (Listing("t", 1), Listing("", 1), False),
        (Listing("t", 1, absent=1), Listing("", 1, absent=1), False),
        (Listing("t", 3, absent=2), Listing("", 3, absent=2), True),
        (Resting(3, Watching(5)), Resting(3, Watching(5)), False),
        (Resting(3, Listing("", 4, absent=3)), Resting(3, Listing("", 4, absent=3)), True),
    ],
)
def test_with_other_objects_to_follow_only_a_list_under_way_begins_again(
    state: State, after: State, gone: bool
) -> None:
    assert begun_again(state) == after
    assert is_gone(state) is gone
