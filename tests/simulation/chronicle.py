"""A server that remembers all its past, and breaks off, repeats, forgets and goes back as it is told to."""

import json
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal

import anyio
from attrs import define, field, frozen

from informers.api_errors import OutcomeUnknown, Unreachable
from informers.transport import HttpRequest, Response, StreamingResponse

PAGE = 2
"""So many objects has a page of a list, whatever the client would take."""
UNTOLD = 2
"""So many changes at most come between a first state and the bookmark that says that it is whole."""

Streaming = Literal["serves", "refuses", "ignores"]
"""What the server makes of `sendInitialEvents`; old ones ignore it and send no such bookmark."""


@frozen
class State:
    """An object at one version. An object that was deleted and made anew has another uid."""

    uid: str
    version: int
    text: int


@frozen
class Told:
    """One entry of the log."""

    version: int
    kind: str
    name: str
    state: State


Content = Mapping[str, State]


def parsed(raw: bytes) -> State:
    """The state that an object's JSON tells of."""
    told = json.loads(raw)
    metadata = told["metadata"]
    return State(metadata["uid"], int(metadata["resourceVersion"]), told["spec"]["text"])


def owner_of(state: State) -> str:
    """The uid of the object's owner, of which there are two."""
    return f"owner-{state.text % 2}"


@define(eq=False)
class _Watch:
    """What is still to be sent on one stream: bytes, its end (None), or what breaks it."""

    sent: deque[bytes | Exception | None] = field(factory=deque)
    news: anyio.Event = field(factory=anyio.Event)
    untold: int | None = None

    def say(self, item: bytes | Exception | None) -> None:
        self.sent.append(item)
        self.news.set()


class Chronicle:
    """A transport to a server of one resource whose past is known.

    `past` holds for each name its states in order, None where there was no object; `timelines` what
    there was at each version, a new one for each time that the server was restored from a backup.
    """

    server = "chronicle"

    def __init__(self, seed: int, streaming: Streaming, *, bookmarks: bool) -> None:
        self.requests: list[float] = []
        self.past: dict[str, list[State | None]] = {}
        self.timelines: list[dict[int, Content]] = [{100: {}}]
        self._chance = random.Random(seed)
        self._streaming = streaming
        self.bookmarks = bookmarks
        self._log: list[Told] = []
        self._forgotten = 100
        self._watches: list[_Watch] = []
        self._ahead: deque[str] = deque()
        self._held_until = 0.0
        self._number = 0

    # --- what there is --------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of now."""
        return max(self.timelines[-1])

    @property
    def content(self) -> Content:
        """What there is now."""
        return self.timelines[-1][self.version]

    def had(self, version: int, content: Content) -> bool:
        """Whether at that version, in one of the time lines, there was just this."""
        return any(_at(line, version) == content for line in self.timelines)

    # --- what happens to objects ----------------------------------------------------------------

    def write(self, name: str) -> None:
        """Make an object, or change it."""
        self._number += 1
        before = self.content.get(name)
        version = self.version + self._chance.randint(1, 3)
        uid = before.uid if before else f"{name}-{self._number}"
        state = State(uid, version, self._number)
        self._append(Told(version, "MODIFIED" if before else "ADDED", name, state))

    def delete(self, name: str) -> None:
        """Delete an object, if it is there."""
        before = self.content.get(name)
        if before is not None:
            version = self.version + self._chance.randint(1, 3)
            self._append(Told(version, "DELETED", name, State(before.uid, version, before.text)))

    def change_others(self, times: int) -> None:
        """Objects of other resources change, which share the versions."""
        self.timelines[-1][self.version + times] = self.content

    def restore(self, steps: int) -> None:
        """Go back to a backup made so many changes ago; every connection breaks."""
        versions = sorted(self.timelines[-1])
        kept = versions[: max(1, len(versions) - steps)]
        self.timelines.append({version: self.timelines[-1][version] for version in kept})
        for name, states in self.past.items():
            if states[-1] != self.content.get(name):
                states.append(self.content.get(name))
        self._log = [told for told in self._log if told.version <= self.version]
        self._forgotten = self.version
        self._ahead.clear()
        self.disrupt("cut")

    # --- what happens to connections ------------------------------------------------------------

    def bookmark(self) -> None:
        """Tell every watch how far it has come."""
        for watch in self._watches:
            if watch.untold is not None:
                self._tell_whole(watch)
            elif self.bookmarks:
                watch.say(_bookmark(self.version))

    def repeat(self, times: int) -> None:
        """Tell every watch the last changes once more; one that is within its first state only the last."""
        for watch in self._watches:
            for told in self._log[-1 if watch.untold is not None else -times :]:
                watch.say(_line(told))

    def forget(self) -> None:
        """Compact the log: no watch and no page can begin before now."""
        self._forgotten = self.version

    def hold(self, seconds: float) -> None:
        """Send nothing for a while."""
        self._held_until = anyio.current_time() + seconds

    def disrupt(self, how: str) -> None:
        """End every stream in one of the ways of `DISRUPTIONS`."""
        for watch in self._watches:
            for item in DISRUPTIONS[how]:
                watch.say(item)

    def refuse(self, how: str) -> None:
        """Have the next request go wrong in one of the ways of `REFUSALS`."""
        self._ahead.append(how)

    # --- transport ------------------------------------------------------------------------------

    async def request(self, request: HttpRequest) -> Response:
        raise AssertionError("an informer reads everything as a stream")

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        self.requests.append(anyio.current_time())
        await anyio.sleep(self._chance.random())
        refused = REFUSALS[self._ahead.popleft()] if self._ahead else None
        if isinstance(refused, Exception):
            raise refused
        answer = refused or self._refusal(request.query)
        if answer is not None:
            async with aclosing(self._body(answer.body)) as chunks:
                yield StreamingResponse(answer.status, answer.headers, chunks)
        elif "watch" not in request.query:
            async with aclosing(self._body(self._page(request.query.get("continue", "")))) as chunks:
                yield StreamingResponse(200, {}, chunks)
        else:
            watch = self._opened(request.query)
            self._watches.append(watch)
            try:
                async with aclosing(self._send(watch, float(request.query["timeoutSeconds"]))) as chunks:
                    yield StreamingResponse(200, {}, chunks)
            finally:
                self._watches.remove(watch)

    async def aclose(self) -> None:
        pass

    def _refusal(self, query: Mapping[str, str]) -> Response | None:
        if "sendInitialEvents" in query:
            return UNPROCESSABLE if self._streaming == "refuses" else None
        if "continue" in query:
            line, version, _ = (int(part) for part in query["continue"].split("."))
            current = line == len(self.timelines) and version >= self._forgotten
            return None if current else EXPIRED
        if "watch" not in query:
            return None
        version = int(query["resourceVersion"])
        if version > self.version:
            # Some servers say so; of others one knows only by a bookmark, or by an event of old.
            return None if self._proof_of_age() and self._chance.random() < 0.5 else TOO_LARGE
        return EXPIRED if version < self._forgotten else None

    def _page(self, token: str) -> bytes:
        _, version, start = token.split(".") if token else ("", str(self.version), "0")
        names = sorted(content := _at(self.timelines[-1], int(version)) or {})
        end = int(start) + PAGE
        more = f"{len(self.timelines)}.{version}.{end}" if end < len(names) else ""
        items = [_object(name, content[name]) for name in names[int(start) : end]]
        return json.dumps(
            {"metadata": {"resourceVersion": version, "continue": more}, "items": items}
        ).encode()

    def _opened(self, query: Mapping[str, str]) -> _Watch:
        watch = _Watch()
        if "sendInitialEvents" not in query:
            after = int(query["resourceVersion"])
            if after > self.version:
                watch.say(self._proof_of_age())
            for told in self._log:
                if told.version > after:
                    watch.say(_line(told))
            return watch
        watch.untold = 0
        for name in self._chance.sample(sorted(self.content), len(self.content)):
            state = self.content[name]
            watch.say(_line(Told(state.version, "ADDED", name, state)))
            if self.bookmarks and self._chance.random() < 0.1:
                watch.say(_bookmark(self.version))
        if self._chance.random() < 0.5:
            self._tell_whole(watch)
        return watch

    def _proof_of_age(self) -> bytes:
        """What shows to clients that have seen later versions that the server is older, if anything does."""
        if self.bookmarks:
            return _bookmark(self.version)
        oldest = min(self.content.items(), key=lambda item: item[1].version, default=None)
        return _line(Told(oldest[1].version, "MODIFIED", *oldest)) if oldest else b""

    def _append(self, told: Told) -> None:
        content = {name: state for name, state in self.content.items() if name != told.name}
        if told.kind != "DELETED":
            content[told.name] = told.state
        self.timelines[-1][told.version] = content
        self.past.setdefault(told.name, [None]).append(content.get(told.name))
        self._log.append(told)
        for watch in self._watches:
            watch.say(_line(told))
            if watch.untold is not None:
                watch.untold += 1
                if watch.untold >= UNTOLD:
                    self._tell_whole(watch)

    def _tell_whole(self, watch: _Watch) -> None:
        watch.untold = None
        if self._streaming == "serves":
            watch.say(_bookmark(self.version, whole=True))

    async def _send(self, watch: _Watch, seconds: float) -> AsyncGenerator[bytes, None]:
        ends = anyio.current_time() + seconds
        while anyio.current_time() < ends:
            if not watch.sent:
                watch.news = anyio.Event()
                with anyio.move_on_at(ends):
                    await watch.news.wait()
                continue
            await self._delay()
            together = b""
            while watch.sent and isinstance(watch.sent[0], bytes):
                together += watch.sent.popleft()  # type: ignore[operator]
                if self._chance.random() < 0.3:
                    break
            for part in self._torn(together):
                yield part
            if not watch.sent or isinstance(watch.sent[0], bytes):
                continue
            if isinstance(item := watch.sent.popleft(), Exception):
                raise item
            return

    async def _body(self, body: bytes) -> AsyncGenerator[bytes, None]:
        for part in self._torn(body):
            await self._delay()
            yield part

    def _torn(self, data: bytes) -> Sequence[bytes]:
        cut = self._chance.randrange(len(data) + 1)
        return [part for part in (data[:cut], data[cut:]) if part]

    async def _delay(self) -> None:
        await anyio.sleep(max(self._chance.random() * 2, self._held_until - anyio.current_time()))


def _at(timeline: Mapping[int, Content], version: int) -> Content | None:
    """What there was at a version; None before the first and after the last."""
    before = [known for known in timeline if known <= version]
    return timeline[max(before)] if before and version <= max(timeline) else None


def _object(name: str, state: State) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner_of(state)}
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": state.uid,
        "resourceVersion": str(state.version),
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": {"text": state.text}}


def _event(kind: str, content: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


def _line(told: Told) -> bytes:
    return _event(told.kind, _object(told.name, told.state))


def _bookmark(version: int, *, whole: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if whole else {}
    return _event("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def _status(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}


def _answer(code: int, reason: str, *causes: Mapping[str, str], **headers: str) -> Response:
    return Response(code, headers, json.dumps(_status(code, reason, causes=causes)).encode())


_RESET = OutcomeUnknown("the connection was reset", "WATCH")
UNPROCESSABLE = _answer(422, "Invalid")
EXPIRED = _answer(410, "Expired")
TOO_LARGE = _answer(504, "Timeout", {"reason": "ResourceVersionTooLarge", "message": "too large"})

DISRUPTIONS: Mapping[str, Sequence[bytes | Exception | None]] = {
    "end": [None],
    "cut": [_RESET],
    "cut in a line": [b'{"type":"ADDED","obj', _RESET],
    "end in a line": [b'{"type":"ADDED","obj', None],
    "expire": [_event("ERROR", _status(410, "Expired")), None],
    "be busy": [_event("ERROR", _status(429, "TooManyRequests", retryAfterSeconds=5)), None],
    "fail": [_event("ERROR", _status(500, "InternalError")), None],
    "say garbage": [b"upstream connect error\n", None],
    "say something new": [_event("NOVELTY", {"kind": "Hint"})],
}
REFUSALS: Mapping[str, Response | Exception] = {
    "gone": EXPIRED,
    "busy": _answer(429, "TooManyRequests", **{"retry-after": "7"}),
    "broken": _answer(500, "InternalError"),
    "down": Response(503, {}, b"upstream connect error"),
    "unknown to us": _answer(401, "Unauthorized"),
    "out of reach": Unreachable("the connection was refused", "WATCH"),
    "lost": _RESET,
}
