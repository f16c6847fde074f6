"""The guides for those who come from another framework: their code runs, and their tables are complete."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import kopf
import pytest
from attrs import define, evolve, field, frozen
from kopf import on

from informers import HttpRequest
from reconcile import Controller, ObjectMeta
from reconcile.adoption.kopf_table import counterparts
from reconcile.errors import TemporaryError
from reconcile.kinds import Deployment
from reconcile.testing import FakeClient, ListeningServer, ManagerRunner, VirtualCluster, run_once
from tests.clients.gadgets import deployment
from tests.docs.blocks import ROOT, all_blocks, assert_shown, code, run

KOPF = "docs/how-to/move-from-kopf.md"
TEXT = (ROOT / KOPF).read_text()
HANDLERS = {"make", "resize", "measure", "follow", "drop"}


@frozen
class Stored:
    size: int
    url: str
    used: int = 7


@define
class FakeStorage:
    """The storage system of the page."""

    sizes: dict[str, int] = field(factory=dict)
    busy: float = 0.0
    asked: int = 0
    resized: int = 0

    class Busy(Exception):
        seconds = 9.0

    async def find(self, name: str) -> Stored | None:
        self.asked += 1
        if self.busy:
            raise self.Busy
        size = self.sizes.get(name)
        return None if size is None else Stored(size, f"https://storage.example.com/{name}")

    async def create(self, name: str, size: int) -> Stored | None:
        self.sizes[name] = size
        return await self.find(name)

    async def resize(self, name: str, size: int) -> None:
        self.resized += 1
        self.sizes[name] = size

    async def delete(self, name: str) -> None:
        self.sizes.pop(name, None)

    async def price(self, name: str) -> float:
        self.asked += 1
        return 2.0

    async def changes(self, name: str) -> AsyncIterator[str]:
        await anyio.sleep(10)
        yield "resized by hand"
        await anyio.sleep_forever()


def page_of(title: str) -> str:
    blocks = [one for one in all_blocks() if one.page == KOPF and one.language == "python"]
    return "\n".join(one.text for one in blocks if one.title == title)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page", "FakeStorage": FakeStorage}
    exec(compile(page_of(""), KOPF, "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def registry() -> Iterator[kopf.OperatorRegistry]:
    """An empty registry, which is the default one meanwhile."""
    before, made = kopf.get_default_registry(), kopf.OperatorRegistry()
    kopf.set_default_registry(made)
    yield made
    kopf.set_default_registry(before)


def test_the_operator_on_kopf_has_the_handlers_that_the_page_counts(registry: kopf.OperatorRegistry) -> None:
    exec(compile(page_of("on kopf"), KOPF, "exec", dont_inherit=True), {"__name__": "on_kopf"})
    handlers = [*registry._changing.get_all_handlers(), *registry._spawning.get_all_handlers()]
    assert {handler.fn.__name__ for handler in handlers} == HANDLERS
    assert "Five handlers have become one decision" in TEXT


def test_the_operator_is_read_as_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "buckets_kopf.py").write_text(page_of("on kopf"))
    (shown,) = [text for text in code(KOPF, "console") if "$ " in text]
    command, _, output = shown.removeprefix("$ reconcile ").partition("\n")
    done = subprocess.run(
        [sys.executable, "-m", "reconcile", *command.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_shown(output, done.stdout)


async def test_the_port_does_what_the_five_handlers_did(page: dict[str, Any]) -> None:
    storage, bucket = FakeStorage(), page["Bucket"](metadata=ObjectMeta("logs", "default"))
    client, buckets = FakeClient(bucket), page["buckets"](storage)
    await run_once(buckets, bucket, client)
    stored = await client.get(page["Bucket"], "logs", "default")
    assert (storage.sizes, stored.status.url) == ({"logs": 1}, "https://storage.example.com/logs")
    assert (await run_once(buckets, bucket, client)).writes == []
    await client.modify(
        page["Bucket"], "logs", "default", lambda one: evolve(one, spec=page["BucketSpec"](4))
    )
    await run_once(buckets, bucket, client)
    assert (storage.sizes, storage.resized) == ({"logs": 4}, 1)
    storage.busy = 9.0
    done = await run_once(buckets, bucket, client)
    assert isinstance(done.error, TemporaryError)
    assert done.error.delay == 9.0
    await client.delete(await client.get(page["Bucket"], "logs", "default"))
    await run_once(buckets, bucket, client)
    assert storage.sizes == {}


async def test_what_the_daemon_saw_wakes_the_reconciler(
    page: dict[str, Any], cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    storage = FakeStorage()
    cluster.client.add(page["Bucket"](metadata=ObjectMeta("logs", "default")))
    async with manager(page["buckets"](storage)):
        await anyio.sleep(9)
        storage.sizes["logs"], before = 50, storage.asked
        await anyio.sleep(3)
        assert (storage.sizes, storage.asked) == ({"logs": 1}, before + 1)


async def test_a_cache_by_uid_is_dropped_with_its_object(
    page: dict[str, Any], cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    storage = FakeStorage()
    priced: Controller[Any] = page["priced_buckets"](storage)
    bucket = page["Bucket"](metadata=ObjectMeta("logs", "default"))
    cluster.client.add(bucket)
    async with manager(priced):
        await anyio.sleep(5)
        assert (await cluster.client.get(page["Bucket"], "logs", "default")).status.used == 2
        assert storage.asked == 1
        await cluster.client.delete(await cluster.client.get(page["Bucket"], "logs", "default"))
        await anyio.sleep(5)
        cluster.client.add(bucket)
        await anyio.sleep(5)
        assert storage.asked == 2


def left_by_kopf(page: dict[str, Any], **metadata: Any) -> Any:
    notes = {"last-handled-configuration": '{"spec":{"size":1}}', "touch-dummy": "2026-01-01"}
    return page["Bucket"](
        metadata=ObjectMeta(
            "logs",
            "default",
            annotations={**{f"kopf.zalando.org/{name}": text for name, text in notes.items()}, "mine": "1"},
            finalizers=("kopf.zalando.org/KopfFinalizerMarker", "example.com/other"),
            **metadata,
        )
    )


async def test_a_bucket_of_kopf_is_taken_over_and_nothing_of_kopf_stays(page: dict[str, Any]) -> None:
    storage, bucket = FakeStorage({"logs": 1}), left_by_kopf(page)
    client, buckets = FakeClient(bucket), page["buckets_from_kopf"](storage)
    done = await run_once(buckets, bucket, client)
    stored = await client.get(page["Bucket"], "logs", "default")
    assert (done.error, done.undeclared, storage.resized) == (None, [], 0)
    assert {*stored.metadata.finalizers} == {"example.com/bucket", "example.com/other"}
    assert dict(stored.metadata.annotations) == {"mine": "1"}
    assert done.writes[0] == "patch buckets default/logs"
    assert (await run_once(buckets, bucket, client)).writes == []


async def test_a_bucket_that_was_deleted_under_kopf_gets_its_cleanup(page: dict[str, Any]) -> None:
    storage, bucket = FakeStorage({"logs": 1}), left_by_kopf(page)
    client, buckets = FakeClient(bucket), page["buckets_from_kopf"](storage)
    await client.delete(await client.get(page["Bucket"], "logs", "default"))
    await run_once(buckets, bucket, client)
    assert storage.sizes == {}
    stored = await client.get(page["Bucket"], "logs", "default")
    assert [*stored.metadata.finalizers] == ["example.com/other"]


async def test_the_test_of_the_whole_operator_passes(
    page: dict[str, Any], api_server: ListeningServer, manager: ManagerRunner
) -> None:
    await page["test_a_bucket_is_made_over_https"](api_server, manager)


def test_each_decorator_of_kopf_has_its_row() -> None:
    names = [name for name in dir(on) if getattr(getattr(on, name), "__module__", "") == "kopf.on"]
    names = [name for name in names if callable(getattr(on, name)) and not name.startswith("_")]
    assert len(names) >= 17
    cells = " ".join(line.split(" | ")[0] for line in TEXT.splitlines() if line.startswith("| "))
    assert {*names} - {*re.findall(r"`kopf\.(?:on\.)?(\w+)`", cells)} == set()


def rows_of_the_guide() -> Iterator[tuple[str, str]]:
    """The cells of the tables of the page that say what a name of kopf becomes."""
    for line in TEXT.splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip("| "))
        if line.startswith("| ") and len(cells) == 2:
            yield cells[0], cells[1]


def words_of(text: str) -> set[str]:
    """The names in the code of a text, but those that stand for any of the author's."""
    code = " ".join(re.findall(r"`([^`]+)`", text))
    return set(re.findall(r"[A-Za-z_]{2,}=?", code)) - {"Controller", "Kind", "function", "name"}


def test_the_guide_and_the_table_of_names_say_the_same() -> None:
    known, compared = counterparts(), 0
    for names, here in rows_of_the_guide():
        for name in re.findall(r"`([^`(]+)", names):
            for row in filter(None, (known.get(name), known.get(f"@{name}"))):
                expected = words_of(row.here)
                assert not expected or expected & words_of(here), f"{row.name}: {row.here}, but {here}"
                compared += bool(expected)
    assert compared > 45


def test_each_exception_of_kopf_has_its_row() -> None:
    errors = [name for name in dir(kopf) if isinstance(getattr(kopf, name), type) and name.endswith("Error")]
    assert len(errors) >= 6
    assert [name for name in errors if not re.search(rf"^\|.*`kopf\.{name}\b", TEXT, re.MULTILINE)] == []


# --- from Go and Java ---------------------------------------------------------------------------------------


async def test_the_operator_for_those_who_come_from_go_works_and_declares_what_it_writes() -> None:
    names = run("docs/how-to/move-from-controller-runtime.md")
    shop = names["Shop"](metadata=ObjectMeta("a", "default"), spec=names["ShopSpec"]("shop:1"))
    client = FakeClient(shop)
    done = await run_once(names["shops"], shop, client)
    assert done.undeclared == []
    assert done.writes == [
        "patch shops default/a",
        "apply deployments default/a",
        "patch shops/status default/a",
    ]
    assert done.conditions["Ready"]["status"] == "False"
    assert (await run_once(names["shops"], shop, client)).writes == []


@pytest.mark.parametrize("applied", [False, True])
async def test_what_an_operator_in_go_left_becomes_the_ports(applied: bool) -> None:
    names = run("docs/how-to/move-from-controller-runtime.md")
    shop = names["Shop"](
        metadata=ObjectMeta("a", "default", finalizers=("shop.example.com/finalizer",)),
        spec=names["ShopSpec"]("shop:1"),
    )
    client, moved = FakeClient(shop), names["moved"]
    child = deployment("a", "shop:0")
    child["spec"]["selector"] = {"matchLabels": {"shop": "a"}}
    child["spec"]["template"]["metadata"] = {"labels": {"shop": "a"}, "annotations": {"left": "out"}}
    path, body = "/apis/apps/v1/namespaces/default/deployments", json.dumps(child).encode()
    headers = {"content-type": "application/json", "user-agent": "manager/v1"}
    request = HttpRequest("POST", path, {}, headers, body)
    if applied:
        headers = {"content-type": "application/apply-patch+yaml"}
        request = HttpRequest("PATCH", f"{path}/a", {"fieldManager": "manager"}, headers, body)
    answer = await client.transport.request(request)
    assert answer.status == 201
    assert (await run_once(moved, shop, client)).error is None
    stored = await client.get(names["Shop"], "a", "default")
    assert stored.metadata.finalizers == (moved.finalizer,)
    template = (await client.get(Deployment, "a", "default")).spec.template
    assert not template.metadata.annotations
    assert (await run_once(moved, shop, client)).writes == []
