"""What replay finds: nothing with the same code, each other decision with newer code."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from reconcile import Context, Intent, ObjectMeta, Result
from reconcile.kinds import ConfigMap, Secret
from reconcile.recording.recorded_events import Sent
from reconcile.testing import FakeClient, RealWorldError
from reconcile.testing.recorded_runs import ReplayReport, replay_recording
from tests.recording.recorded_sites import Site, keep_site, recorded, site, sites


def lines(report: ReplayReport) -> str:
    return "\n".join(report.lines())


def with_text(text: str, one: Site) -> Site:
    return one.replace(spec=evolve(one.spec, text=text))


async def edit(client: FakeClient) -> None:
    for text in ("second", "fail", "again"):
        await client.modify(Site, "web", "default", partial(with_text, text))
        await anyio.sleep(2)


@pytest.mark.rule("replay-identical")
def test_the_same_code_decides_the_same_in_every_run(tmp_path: Path) -> None:
    report = replay_recording(recorded(tmp_path / "rec", site(), act=edit, seconds=100), [sites()])
    assert report.identical
    assert report.runs > 8  # the edits, what failed and was tried again, and what asked for a run
    assert report.requests >= 4
    assert lines(report) == f"all decide the same: {report.runs} runs, with {report.requests} requests"


def test_another_body_is_shown_field_by_field(tmp_path: Path) -> None:
    async def louder(ctx: Context[Site]) -> None:
        data = {"text": ctx.object.spec.text.upper()}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))

    report = replay_recording(recorded(tmp_path / "rec", site()), [sites(louder)])
    assert (
        "APPLY /api/v1/namespaces/default/configmaps/web:\n    .data.text: before 'hello', now 'HELLO'"
        in lines(report)
    )
    assert not report.identical
    (first, *_) = report.differing
    assert (first.controller, first.key) == ("site", "default/web")


def test_a_request_that_is_not_sent_any_more_is_listed(tmp_path: Path) -> None:
    async def idle(ctx: Context[Site]) -> None:
        return None

    report = replay_recording(recorded(tmp_path / "rec", site()), [sites(idle)])
    assert "APPLY /api/v1/namespaces/default/configmaps/web: before sent, now not sent" in lines(report)


def test_a_new_request_is_listed_and_the_next_runs_go_on(tmp_path: Path) -> None:
    async def twice(ctx: Context[Site]) -> Result | None:
        more = ObjectMeta(f"{ctx.object.name}-more")
        made = await ctx.apply(Intent(ConfigMap, metadata=more, data={}))
        assert made.uid  # an answer came, though none was recorded
        return await keep_site(ctx)

    recording = recorded(tmp_path / "rec", site(), act=edit)
    report = replay_recording(recording, [sites(twice)])
    assert report.runs > 4
    assert "APPLY /api/v1/namespaces/default/configmaps/web-more" in lines(report)
    assert "configmaps/web:" not in lines(report)


def test_another_result_is_listed(tmp_path: Path) -> None:
    async def later(ctx: Context[Site]) -> Result:
        await keep_site(ctx)
        return Result(requeue_after=5)

    report = replay_recording(recorded(tmp_path / "rec", site()), [sites(later)])
    assert "result: before success, now requeue_after" in lines(report)


def test_an_error_of_newer_code_is_shown_with_its_text(tmp_path: Path) -> None:
    async def broken(ctx: Context[Site]) -> None:
        raise KeyError("replicas")

    report = replay_recording(recorded(tmp_path / "rec", site()), [sites(broken)])
    assert "result: before success, now error (KeyError: 'replicas')" in lines(report)


def test_writes_in_another_order_are_found(tmp_path: Path) -> None:
    async def in_order(ctx: Context[Site], *names: str) -> None:
        for name in names:
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(name), data={"text": ctx.object.spec.text}))

    async def one_way(ctx: Context[Site]) -> None:
        await in_order(ctx, "a", "b")

    async def other_way(ctx: Context[Site]) -> None:
        await in_order(ctx, "b", "a")

    recording = recorded(tmp_path / "rec", site(), controller=sites(one_way))
    assert replay_recording(recording, [sites(one_way)]).identical
    found = lines(replay_recording(recording, [sites(other_way)]))
    assert "order of writes: before APPLY /api/v1/namespaces/default/configmaps/a first" in found


def test_runs_see_the_time_the_chance_and_the_uuids_that_they_saw(tmp_path: Path) -> None:
    async def chancy(ctx: Context[Site]) -> None:
        text = f"{ctx.clock.now()} {ctx.clock.random()} {ctx.clock.uuid()}"
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"text": text}))

    recording = recorded(tmp_path / "rec", site(), controller=sites(chancy), act=edit)
    report = replay_recording(recording, [sites(chancy)])
    assert report.identical
    assert report.requests > 3


def test_runs_that_overlap_see_the_cache_as_it_was_at_each_step(tmp_path: Path) -> None:
    seen: dict[int, list[str]] = {}

    def watcher(record: int):  # type: ignore[no-untyped-def]
        async def slow(ctx: Context[Site]) -> None:
            for _ in range(3):
                maps = await ctx.client.list(ConfigMap, "default")
                seen.setdefault(record, []).append(f"{ctx.object.name}: {[one.name for one in maps]}")
                mine = Intent(ConfigMap, metadata=ObjectMeta(f"{ctx.object.name}-{len(maps)}"), data={})
                await ctx.apply(mine)

        return slow

    async def more(client: FakeClient) -> None:
        for number in range(3):
            await client.create(site(f"site-{number}"))

    options = {"workers": 4}
    recording = recorded(tmp_path / "rec", controller=sites(watcher(1), **options), act=more, seconds=4)
    report = replay_recording(recording, [sites(watcher(2), **options)])
    assert report.identical, lines(report)
    assert len(seen[1]) > 10
    assert seen[1] == seen[2]


def test_blocking_code_is_replayed_too(tmp_path: Path) -> None:
    def plain(ctx) -> None:  # type: ignore[no-untyped-def]
        page = Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"text": ctx.object.spec.text})
        ctx.apply(page)

    recording = recorded(tmp_path / "rec", site(), controller=sites(plain))
    report = replay_recording(recording, [sites(plain)])
    assert report.identical
    assert report.requests >= 1


def test_code_that_reaches_for_the_network_ends_the_replay(tmp_path: Path) -> None:
    async def reaching(ctx: Context[Site]) -> None:
        import socket

        socket.create_connection(("127.0.0.1", 9))

    with pytest.raises(RealWorldError, match="under virtual time"):
        replay_recording(recorded(tmp_path / "rec", site()), [sites(reaching)])


def test_only_chosen_runs_are_compared_and_all_are_executed(tmp_path: Path) -> None:
    executed: list[str] = []

    async def counting(ctx: Context[Site]) -> None:
        executed.append(ctx.object.name)

    recording = recorded(tmp_path / "rec", site(), act=edit)
    report = replay_recording(recording, [sites(counting)], chosen=lambda at, run: at > 3)
    assert 0 < report.runs < len(executed)


def test_runs_of_controllers_that_are_not_given_are_named(tmp_path: Path) -> None:
    report = replay_recording(
        recorded(tmp_path / "rec", site()), [sites(name="others", operator="x.example.com")]
    )
    assert report.runs == 0
    assert "no run of controller site: it is not among those given" in lines(report)


def test_a_recording_has_only_the_requests_of_runs(tmp_path: Path) -> None:
    async def telling(ctx: Context[Site]) -> None:
        ctx.event("Kept", "the site is kept")
        await keep_site(ctx)

    recording = recorded(tmp_path / "rec", site(), controller=sites(telling))
    paths = {event.path for event in recording.events() if isinstance(event, Sent)}
    assert paths == {"/api/v1/namespaces/default/configmaps/web"}
    assert replay_recording(recording, [sites(telling)]).identical


async def fingerprint(ctx: Context[Site]) -> None:
    login = await ctx.client.get(Secret, "login", "default")
    digest = hashlib.sha256(login.data["password"].encode() + ctx.object.spec.token.encode()).hexdigest()
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"digest": digest}))


async def fingerprint_of_token(ctx: Context[Site]) -> None:
    digest = hashlib.sha256(ctx.object.spec.token.encode()).hexdigest()
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"digest": digest}))


@pytest.mark.parametrize("reconcile", [fingerprint, fingerprint_of_token])
def test_a_difference_of_a_run_that_has_read_masked_values_says_so(tmp_path: Path, reconcile: Any) -> None:
    login = Secret(metadata=ObjectMeta("login", "default"), data={"password": "Y29ycmVjdCBob3JzZQ=="})
    controller = sites(reconcile, reads=[Secret])
    recording = recorded(tmp_path / "rec", site(token="sk-live-0123"), login, controller=controller)
    report = replay_recording(recording, [controller])
    (first, *_) = report.differing
    assert "digest: before" in lines(report)
    assert first.masked
    assert "it has read values that the recording masks" in lines(report)
    assert report.as_json()["differing"][0]["readMasked"] is True


def test_a_difference_without_masked_values_does_not_blame_them(tmp_path: Path) -> None:
    async def idle(ctx: Context[Site]) -> None:
        return None

    report = replay_recording(recorded(tmp_path / "rec", site()), [sites(idle)])
    assert report.differing
    assert "masks" not in lines(report)


def test_kinds_that_the_code_does_not_follow_any_more_are_named(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "rec", site(), controller=sites(reads=[Secret]))
    same, newer = (replay_recording(recording, [sites(**more)]) for more in ({"reads": [Secret]}, {}))
    assert same.not_followed == set()
    assert "left out, as none of the controllers given follows it: secrets" in newer.lines()
    assert newer.as_json()["notFollowed"] == ["secrets"]
