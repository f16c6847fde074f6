"""A large store that is seldom read is compressed in the background, without a visible change."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Delta, InformerOptions, Key, Snapshot
from informers import background_compression as background
from informers import compression_rule as rule
from informers.codecs import StandardZstdCodec, ZlibCodec, ZstdCodec
from informers.compression import Codec, Compression
from informers.store import Store
from informers.stored_shape import StoredShape
from reconcile import ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.storms import is_echo
from tests.helpers.scenarios import in_world
from tests.helpers.standard_zstd import standard_zstd
from tests.helpers.tasks import beside
from tests.helpers.writes import ended_write
from tests.informers.informed import CONFIG_MAPS, World, informed

MINUTE = rule.PERIOD
TEXT = "always the same, " * 100
COUNT = 40


@pytest.fixture
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What 64 MiB are to a store in a cluster, 32 KiB are here, and slices are as small."""
    monkeypatch.setattr(rule, "LARGE", 32 << 10)
    monkeypatch.setattr(rule, "SMALL", 1 << 10)
    monkeypatch.setattr(background, "SLICE", 16 << 10)
    monkeypatch.setattr(background, "GIVE_BACK", 16 << 10)


small_is_large = pytest.mark.usefixtures("_small_is_large")


def with_options(options: InformerOptions) -> Callable[..., None]:
    return lambda scenario: informed(scenario, options=options)


async def fill(world: World, count: int = COUNT) -> None:
    for number in range(count):
        labels = {"number": str(number)}
        await world.client.create(
            ConfigMap(metadata=ObjectMeta(f"c-{number}", "default", labels=labels), data={"text": TEXT})
        )
    await anyio.sleep(1)
    assert len(world.informer.store) == count


def compressed(world: World) -> int:
    return sum(snapshot.compressed for snapshot in world.informer.store)


async def until_compressed(world: World) -> None:
    await anyio.sleep((rule.PERIODS + 1) * MINUTE)
    assert world.informer.status().compressing
    assert compressed(world) == len(world.informer.store)


# --- by default -----------------------------------------------------------------------------------------


@small_is_large
@in_world(informed)
async def test_a_large_store_without_reads_is_compressed_and_looks_unchanged(world: World) -> None:
    await fill(world)
    store, deltas = world.informer.store, list[Delta]()
    world.informer.add_handler(deltas.append, present=False)
    store.add_index("number", lambda snapshot: [snapshot.labels["number"]])
    before = {snapshot.key: snapshot for snapshot in store}
    raws, size, version = {key: one.raw for key, one in before.items()}, store.size, store.version
    assert not world.informer.status().compressing
    await until_compressed(world)
    assert {key: store.get(key) for key in before} == before
    assert all(store.get(key) is snapshot for key, snapshot in before.items())
    assert {snapshot.key: snapshot.raw for snapshot in store} == raws
    assert all(store.by_index("number", one.labels["number"]) == [one] for one in store)
    assert store.size == sum(snapshot.size for snapshot in store) < size / 3
    assert (store.version, deltas) == (version, [])


@small_is_large
@in_world(informed)
async def test_nothing_is_compressed_in_the_first_minutes(world: World) -> None:
    await fill(world)
    await anyio.sleep((rule.PERIODS - 1) * MINUTE)
    assert compressed(world) == 0


@small_is_large
@in_world(informed)
async def test_a_store_that_is_read_every_minute_is_not_compressed(world: World) -> None:
    await fill(world)
    for _ in range(12):
        for snapshot in [*world.informer.store][: COUNT // 2]:
            snapshot.to_dict()
        await anyio.sleep(MINUTE)
    assert compressed(world) == 0
    assert not world.informer.status().compressing


@in_world(informed)
async def test_a_store_that_is_not_large_has_no_task_for_it_and_stays_as_it_is(world: World) -> None:
    tasks = len(asyncio.all_tasks())
    await fill(world)
    assert len(asyncio.all_tasks()) == tasks
    await anyio.sleep(10 * MINUTE)
    assert compressed(world) == 0
    assert not world.informer.status().compressing


@small_is_large
@in_world(informed)
async def test_a_store_whose_objects_are_gone_has_no_task_any_more(world: World) -> None:
    tasks = len(asyncio.all_tasks())
    await fill(world)
    assert len(asyncio.all_tasks()) == tasks + 1
    await until_compressed(world)
    for snapshot in world.informer.store.list():
        await world.client.delete(await world.client.get(ConfigMap, snapshot.name, "default"))
    await anyio.sleep((rule.PERIODS + 1) * MINUTE)
    assert len(asyncio.all_tasks()) == tasks
    assert not world.informer.status().compressing


@small_is_large
@in_world(informed)
async def test_a_changed_body_arrives_as_it_is_and_is_compressed_with_the_next_walk(world: World) -> None:
    await fill(world)
    await until_compressed(world)
    async with world.client.editing(await world.client.get(ConfigMap, "c-3", "default")) as draft:
        draft.data["more"] = "text"
    await anyio.sleep(1)
    changed = world.informer.store.get(Key("default", "c-3"))
    assert changed is not None
    assert not changed.compressed
    assert compressed(world) == COUNT - 1
    await anyio.sleep(MINUTE)
    assert changed.compressed
    assert changed.to_dict()["data"]["more"] == "text"


@small_is_large
@in_world(informed)
async def test_when_bodies_are_read_often_again_changed_ones_stay_as_they_are(world: World) -> None:
    await fill(world)
    await until_compressed(world)
    for _ in range(rule.PERIODS + 1):
        for snapshot in world.informer.store:
            snapshot.to_dict()
        await anyio.sleep(MINUTE)
    assert not world.informer.status().compressing
    assert compressed(world) == COUNT
    async with world.client.editing(await world.client.get(ConfigMap, "c-3", "default")) as draft:
        draft.data["more"] = "text"
    await anyio.sleep(10 * MINUTE)
    assert compressed(world) == COUNT - 1


@small_is_large
@in_world(informed)
async def test_a_list_of_what_is_compressed_already_changes_nothing_and_is_not_a_read(world: World) -> None:
    await fill(world)
    await until_compressed(world)
    deltas, before = list[Delta](), {snapshot.key: snapshot for snapshot in world.informer.store}
    world.informer.add_handler(deltas.append, present=False)
    reads = world.informer.store.shape.compression
    assert reads is not None
    count = reads.reads
    world.informer.relist()
    await anyio.sleep(5)
    assert world.informer.status().relists == 1
    assert deltas == []
    assert all(world.informer.store.get(key) is snapshot for key, snapshot in before.items())
    assert (compressed(world), reads.reads) == (COUNT, count)


# --- the options ------------------------------------------------------------------------------------------


@small_is_large
@in_world(with_options(InformerOptions(compress=False)))
async def test_with_compress_false_nothing_is_ever_compressed(world: World) -> None:
    await fill(world)
    await anyio.sleep(20 * MINUTE)
    assert compressed(world) == 0
    assert not world.informer.status().compressing


@in_world(with_options(InformerOptions(compress=True)))
async def test_with_compress_true_each_body_is_compressed_as_it_arrives(world: World) -> None:
    await fill(world)
    assert compressed(world) == COUNT
    assert world.informer.status().compressing


# --- slices, and an end within them ---------------------------------------------------------------------


@small_is_large
@in_world(informed)
async def test_other_tasks_run_between_small_slices(world: World) -> None:
    await fill(world)
    store = world.informer.store
    largest, slices, compress = max(one.size for one in store), Counter[float](), store.compress

    def counted(held: Snapshot) -> int:
        slices[anyio.current_time()] += held.size + background.EACH
        return compress(held)

    store.compress = counted  # type: ignore[method-assign]
    await until_compressed(world)
    assert len(slices) > 5
    assert max(slices.values()) < background.SLICE + largest + background.EACH


@small_is_large
@in_world(informed)
async def test_an_informer_that_ends_within_a_walk_leaves_a_store_that_reads_the_same(world: World) -> None:
    await fill(world)
    informer = world.informer
    raws = {snapshot.key: snapshot.raw for snapshot in informer.store}

    again = type(informer)(world.transport, CONFIG_MAPS)
    async with beside(again.run):
        await again.wait_synced()
        while not any(snapshot.compressed for snapshot in again.store):
            await anyio.sleep(0.001)
    mixed = sum(snapshot.compressed for snapshot in again.store)
    assert 0 < mixed < COUNT
    assert {snapshot.key: snapshot.raw for snapshot in again.store} == raws
    assert again.store.size == sum(snapshot.size for snapshot in again.store)
    await anyio.sleep(10 * MINUTE)
    assert sum(snapshot.compressed for snapshot in again.store) == mixed
    async with beside(again.run):
        await anyio.sleep((rule.PERIODS + 1) * MINUTE)
        assert all(snapshot.compressed for snapshot in again.store)


# --- a mixed store ------------------------------------------------------------------------------------------


def state(name: str, version: int, text: str = "", owner: str = "") -> bytes:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"u-{name}",
        "resourceVersion": str(version),
        "labels": {"text": text},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": owner}],
    }
    return msgspec.json.encode({"metadata": metadata, "data": {"text": text * 20, "labels": {"x": text}}})


STATES = st.builds(
    state,
    name=st.sampled_from("abcd"),
    version=st.integers(1, 9),
    text=st.sampled_from(["", "x", "yy"]),
    owner=st.sampled_from("op"),
)
STEPS = st.one_of(
    st.tuples(st.just("put"), STATES),
    st.tuples(st.just("remove"), STATES),
    st.tuples(st.just("mark"), STATES),
    st.tuples(st.just("stage"), STATES),
    st.tuples(st.just("commit"), st.integers(1, 9)),
    st.tuples(st.just("compress"), st.sampled_from("abcd")),
)
CODECS = [ZlibCodec, ZstdCodec, lambda: StandardZstdCodec(standard_zstd())]


def carry_out(store: Store, step: str, value: Any) -> Any:
    """What a step returns, as far as it is the same for any form of the bodies."""
    if step == "compress":
        held = store.get(Key("default", value))
        if held is not None:
            store.compress(held)
        return None
    if step == "commit":
        return [shown(delta) for delta in store.commit(value)]
    snapshot = Snapshot.from_json(value, store.shape)
    if step == "mark":
        return store.mark(snapshot.with_marks(b"\x01" * 15))
    if step == "stage":
        return store.stage([snapshot])
    delta = store.put(snapshot) if step == "put" else store.remove(snapshot)
    return None if delta is None else shown(delta)


def shown(delta: Delta) -> Any:
    return [
        None if one is None else (one.key, one.version, one.raw, one.labels) for one in (delta.old, delta.new)
    ]


def content(store: Store) -> Any:
    by_text = {text: sorted(one.name for one in store.by_index("text", text)) for text in ("", "x", "yy")}
    by_owner = {uid: sorted(one.name for one in store.by_index("owner", uid)) for uid in "op"}
    return by_text, by_owner, sorted((one.key, one.raw, one.applied, one.labels, one.uid) for one in store)


@given(steps=st.lists(STEPS, max_size=30))
def test_a_store_with_bodies_of_both_forms_reads_like_a_plain_one(steps: Sequence[tuple[str, Any]]) -> None:
    plain, mixed = Store(), Store(shape=StoredShape(compression=Compression()))
    for store in (plain, mixed):
        store.add_index("text", lambda snapshot: [snapshot.labels["text"]])
    for step, value in steps:
        assert carry_out(mixed, step, value) == carry_out(plain, step, value)
        assert content(mixed) == content(plain)
        assert mixed.size == sum(snapshot.size for snapshot in mixed)
    assert mixed.commit(9) is not None  # what was staged counts its bytes too
    assert mixed.size == sum(snapshot.size for snapshot in mixed)


@pytest.mark.parametrize("made", CODECS)
@given(states=st.lists(STATES, min_size=1, max_size=4), marks=st.binary(max_size=20))
def test_a_snapshot_says_the_same_after_its_body_was_compressed(
    made: Callable[[], Codec], states: Sequence[bytes], marks: bytes
) -> None:
    shape = StoredShape(compression=_later(made()))
    for raw in states:
        plain, packed = Snapshot.from_json(raw), Snapshot.from_json(raw, shape).with_marks(marks)
        size = packed.size
        saved = packed.compress()
        assert (packed.compressed, packed.compress()) == (True, 0)
        assert packed.size == size - saved
        assert packed.applied == marks
        for name in ("raw", "labels", "uid", "owners", "generation", "annotations_hash", "key", "version"):
            assert getattr(packed, name) == getattr(plain, name)
        assert packed == plain
        assert packed.same_as(plain)
        assert plain.same_as(packed)
        assert packed.same_as(packed.with_marks(b"other"))
        assert packed.with_marks(b"other").raw == plain.raw


def _later(codec: Codec) -> Compression:
    """A compression that does nothing on arrival, with that codec."""
    compression = Compression(codec)
    compression.on_arrival = False
    return compression


def test_a_snapshot_of_a_store_that_never_compresses_stays_as_it_is() -> None:
    plain = Snapshot.from_json(state("a", 1, "x"))
    assert (plain.compress(), plain.compressed) == (0, False)


def test_an_object_that_the_store_has_no_more_is_left_alone() -> None:
    store = Store(shape=StoredShape(compression=Compression()))
    old, new = (Snapshot.from_json(state("a", version, "x"), store.shape) for version in (1, 2))
    store.put(old)
    store.put(new)
    assert (store.compress(old), old.compressed) == (0, False)
    assert store.size == new.size


@pytest.mark.parametrize("made", CODECS)
def test_bodies_can_be_read_in_threads_while_they_are_compressed(made: Callable[[], Codec]) -> None:
    shape = StoredShape(compression=_later(made()))
    raws = [state(f"n-{number}", 1, "x" * number) for number in range(300)]
    snapshots = [Snapshot.from_json(raw, shape) for raw in raws]
    with ThreadPoolExecutor(4) as pool:
        read = [pool.submit(lambda: [(one.raw, one.labels) for one in snapshots]) for _ in range(20)]
        for snapshot in snapshots:
            snapshot.compress()
        expected = [(one.raw, one.labels) for one in map(Snapshot.from_json, raws)]
        assert all(each.result() == expected for each in read)


@pytest.mark.rule("storm-echo")
@pytest.mark.parametrize("version", ["1", ""])
def test_an_echo_is_recognized_when_the_state_before_it_was_compressed_meanwhile(version: str) -> None:
    store = Store(shape=StoredShape(compression=Compression()))
    store.put(Snapshot.from_json(state("a", 1, "x"), store.shape))
    (base,) = store
    body = {"data": {"text": "y" * 20, "labels": {"x": "y"}}, "metadata": {"labels": {"text": "y"}}}
    if version:
        body["metadata"]["resourceVersion"] = version  # type: ignore[assignment]
    written = Snapshot.from_json(state("a", 2, "y"))
    sent = ended_write("PATCH", CONFIG_MAPS, base.key, "", body, base, written, False)
    store.compress(base)
    delta = store.put(Snapshot.from_json(state("a", 2, "y"), store.shape))
    assert delta is not None
    assert delta.old is base
    assert delta.new is not None
    assert is_echo(sent, delta.old, delta.new)
