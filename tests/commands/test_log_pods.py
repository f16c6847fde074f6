"""`reconcile logs --name`: the pods of an operator, read and followed through the API server."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field

from informers import Forbidden, HttpRequest
from informers.transport import PassingTransport, StreamingResponse
from reconcile.commands.log_pods import PodLogs
from reconcile.commands.logs_command import LogFilter, LogPage, oldest_of, show_pods
from reconcile.commands.problems import Problem
from reconcile.testing import FakeClient
from tests.helpers.scenarios import simulated

NAMESPACE = "sites-system"
LABELS = {"app": "sites"}


def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "sites", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }


def pod(name: str, labels: dict[str, str] = LABELS) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "manager", "image": "sites"}]},
    }


def written(second: int, event: str) -> bytes:
    """A line of a container at a time, as the kubelet gives it with `timestamps`."""
    stamp = f"2026-11-23T12:00:{second:02}"
    fields = {"event": event, "level": "info", "timestamp": f"{stamp}.000Z"}
    return f"{stamp}.000000000Z {json.dumps(fields)}\n".encode()


@define(eq=False)
class Kubelets(PassingTransport):
    """An API server that has the logs of pods too; the embedded one refuses them, having no kubelet."""

    inner: FakeClient
    logs: dict[str, list[bytes]] = field(factory=dict)
    """The chunks of the log of each pod; one that is missing has not begun."""
    asked: list[tuple[str, dict[str, str]]] = field(factory=list)
    refusal: tuple[int, str] = (400, "container is waiting to start")
    seconds_followed: float = 3.0

    def __attrs_post_init__(self) -> None:
        super().__init__(self.inner.transport)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:  # type: ignore[override]
        assert request.path.endswith("/log")
        name = request.path.split("/")[-2]
        self.asked.append((name, dict(request.query)))
        if name not in self.logs:
            status, message = self.refusal
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
            yield StreamingResponse(status, {}, self._chunks([json.dumps({**body, "code": status}).encode()]))
            return
        follows = request.query.get("follow") == "true"
        since = request.query.get("sinceTime", "")[:19].encode()
        chunks = [chunk for chunk in self.logs[name] if chunk[:19] >= since or not chunk[:4].isdigit()]
        yield StreamingResponse(200, {}, self._chunks(chunks, self.logs[name] if follows else None))

    async def _chunks(self, chunks: list[bytes], growing: list[bytes] | None = None) -> AsyncIterator[bytes]:
        known = len(growing or ())
        for chunk in chunks:
            yield chunk
        if growing is not None:
            with anyio.move_on_after(self.seconds_followed):
                while True:
                    await anyio.sleep(0.1)
                    for chunk in growing[known:]:
                        yield chunk
                    known = len(growing)


def kubelets(*more: dict[str, Any], **logs: list[bytes]) -> Kubelets:
    containers = (
        {"name": "proxy", "image": "p"},
        {"name": "manager", "image": "sites", "args": ["run", "sites"]},
    )
    pods = [pod(name) for name in logs]
    return Kubelets(FakeClient(deployment(*containers), *pods, *more), logs)


def page(**chosen: Any) -> LogPage:
    return LogPage(LogFilter(**chosen), as_json=False, width=0)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Event and pod of each line."""
    rows = capsys.readouterr().out.splitlines()
    return [" ".join(row.split(": ", 1)[-1].replace("pod: ", "").split()) for row in rows]


@simulated
async def test_the_logs_of_all_pods_are_one_by_time(capsys: pytest.CaptureFixture[str]) -> None:
    stranger = pod("other", {"app": "other"})
    server = kubelets(
        stranger, a=[written(1, "one"), written(4, "four")], b=[written(2, "two"), written(3, "three")]
    )
    await show_pods(PodLogs(server, NAMESPACE, "sites"), page(), follow=False)
    assert shown(capsys) == ["one a", "two b", "three b", "four a"]
    assert server.asked == [(name, {"container": "manager", "timestamps": "true"}) for name in ("a", "b")]


@simulated
async def test_previous_and_since_are_asked_of_the_server_and_pods_without_one_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = kubelets(pod("b"), a=[written(1, "one"), written(4, "four")])
    since = oldest_of("2026-11-23T12:00:02Z", server.inner.clock.now())
    logs = PodLogs(server, NAMESPACE, "sites", previous=True, since=since)
    await show_pods(logs, page(since=since), follow=False)
    assert shown(capsys) == ["four a"]
    query = {
        "container": "manager",
        "timestamps": "true",
        "previous": "true",
        "sinceTime": "2026-11-23T12:00:02+00:00",
    }
    assert server.asked == [("a", query), ("b", query)]


@pytest.mark.rule("log-read")
@simulated
async def test_pods_are_followed_over_the_end_of_a_container_and_new_ones_join_without_a_line_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = kubelets(a=[written(1, "one"), b"no time at all\n"])
    async with anyio.create_task_group() as group:
        group.start_soon(
            lambda: show_pods(PodLogs(server, NAMESPACE, "sites"), page(level="info"), follow=True)
        )
        await anyio.sleep(1)
        server.logs["a"] += [written(2, "two")[:40], written(2, "two")[40:]]
        await anyio.sleep(10)  # the stream has ended three times, and each begins with the last second
        server.logs["a"] = [written(1, "one"), written(2, "two")]
        await server.inner.create(pod("b"))
        await anyio.sleep(5)  # the container of b has not begun
        server.logs["b"] = [written(3, "three")]
        await anyio.sleep(5)
        server.logs["a"].append(written(4, "four"))
        await anyio.sleep(5)
        group.cancel_scope.cancel()
    assert shown(capsys) == ["one a", "two a", "three b", "four a"]
    assert {query.get("sinceTime") for name, query in server.asked if name == "a"} >= {
        None,
        "2026-11-23T12:00:02.000000000Z",
    }


@pytest.mark.parametrize("follow", [False, True])
def test_what_cannot_be_read_is_said_with_the_next_step(follow: bool) -> None:
    @simulated
    async def scenario() -> None:
        with pytest.raises(Problem, match="there is no Deployment sites-system/other"):
            await show_pods(PodLogs(kubelets(), NAMESPACE, "other"), page(), follow=follow)
        server = kubelets(pod("a"))
        server.refusal = (403, 'pods "a" is forbidden: User "me" cannot get resource "pods/log"')
        with pytest.raises(Forbidden, match="pods/log"):
            await show_pods(PodLogs(server, NAMESPACE, "sites"), page(), follow=follow)

    scenario()


@pytest.mark.parametrize("follow", [False, True])
def test_a_pod_on_a_dead_node_hides_no_other_log(follow: bool, capsys: pytest.CaptureFixture[str]) -> None:
    @simulated
    async def scenario() -> None:
        told: list[str] = []
        server = kubelets(pod("b"), a=[written(1, "one")])
        server.refusal = (500, 'Get "https://10.0.0.9:10250/containerLogs": dial tcp: no route to host')
        pods = PodLogs(server, NAMESPACE, "sites", report=told.append)
        with anyio.move_on_after(10):
            await show_pods(pods, page(), follow=follow)
        assert shown(capsys)[0] == "one a"
        (line,) = told
        assert line.startswith("the log of pod b cannot be read now: ")
        assert "no route to host" in line
        server.logs.clear()
        if not follow:
            with pytest.raises(Problem, match="no route to host"):
                await show_pods(pods, page(), follow=follow)

    scenario()


@simulated
async def test_without_a_pod_that_has_a_log_the_reason_is_said() -> None:
    with pytest.raises(Problem, match="the Deployment sites-system/sites has no pods"):
        await show_pods(PodLogs(kubelets(), NAMESPACE, "sites"), page(), follow=False)
    with pytest.raises(Problem, match="waiting to start"):
        await show_pods(PodLogs(kubelets(pod("a")), NAMESPACE, "sites"), page(), follow=False)


@simulated
async def test_of_a_log_too_long_to_be_sorted_the_latest_lines_are_shown_and_the_others_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcile.commands.logs_command.LINES_KEPT", 3)
    server = kubelets(a=[written(second, f"a{second}") for second in range(5)], b=[written(2, "b2")])
    told = page()
    await show_pods(PodLogs(server, NAMESPACE, "sites"), told, follow=False)
    told.conclude()
    printed = capsys.readouterr()
    assert [event for second in range(5) if (event := f"a{second}") in printed.out] == ["a2", "a3", "a4"]
    assert "b2" in printed.out
    assert printed.err.startswith("2 older lines were left out, since the last 3 of a pod are sorted: ")
