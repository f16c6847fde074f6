"""`Controller(indexes=)`: named functions find objects of a cache, and of a server without one."""

from collections.abc import Hashable, Iterable

import anyio
import pytest

from reconcile import Context, Controller, Index, ObjectMeta, SyncContext
from reconcile.errors import NotCached
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world


def tier(config: ConfigMap) -> str | None:
    return config.metadata.labels.get("tier")


def sizes(toy: Toy) -> Iterable[Hashable]:
    yield toy.spec.size
    yield toy.spec.size % 2


CONFIGS = [
    ConfigMap(metadata=ObjectMeta("a", "default", labels={"tier": "web"})),
    ConfigMap(metadata=ObjectMeta("b", "default", labels={"tier": "db"})),
    ConfigMap(metadata=ObjectMeta("c", "default")),
]


@pytest.mark.rule("indexes")
@in_world(played)
async def test_an_index_finds_the_objects_of_a_cache_as_they_change(world: World) -> None:
    found: list[tuple[list[str], list[str]]] = []

    async def look(ctx: Context[Toy]) -> None:
        web = await ctx.client.list(ConfigMap, index=("by-tier", "web"))
        odd = await ctx.client.list(Toy, index=("by-size", 1))
        found.append(([config.name for config in web], sorted(toy.name for toy in odd)))

    controller = Controller(
        Toy,
        look,
        reads=[ConfigMap],
        indexes={"by-tier": Index(ConfigMap, tier), "by-size": Index(Toy, sizes)},
    )
    for config in CONFIGS:
        await world.client.create(config)
    await world.make("odd", size=3)
    async with world.running(controller) as manager:
        await anyio.sleep(1)
        assert found[-1] == (["a"], ["odd"])
        await world.client.modify(ConfigMap, "a", "default", lambda config: config.with_metadata(labels={}))
        await anyio.sleep(1)
        await world.make("other", size=1)
        await anyio.sleep(1)
        assert found[-1] == ([], ["odd", "other"])
        await manager.remove("toy")
        await manager.add(controller)
        await anyio.sleep(1)
        assert found[-1] == ([], ["odd", "other"])


@pytest.mark.rule("indexes")
async def test_without_a_cache_an_index_is_computed_from_a_live_list() -> None:
    names: list[str] = []

    async def look(ctx: Context[Toy]) -> None:
        names.extend(one.name for one in await ctx.client.list(ConfigMap, "default", index=("by-tier", "db")))

    def look_in_a_thread(ctx: SyncContext[Toy]) -> None:
        names.extend(one.name for one in ctx.client.list(ConfigMap, "default", index=("by-tier", "db")))

    toy = Toy(metadata=ObjectMeta("a", "default"), spec=ToySpec())
    for function in (look, look_in_a_thread):
        client = FakeClient(toy, *CONFIGS)
        controller = Controller(Toy, function, reads=[ConfigMap], indexes={"by-tier": Index(ConfigMap, tier)})
        assert (await run_once(controller, toy, client)).error is None
    assert names == ["b", "b"]


@pytest.mark.rule("indexes")
@in_world(played)
async def test_two_controllers_may_use_the_same_index_name_and_an_unknown_name_is_an_error(
    world: World,
) -> None:
    found: dict[str, list[str]] = {}
    errors: list[str] = []

    def looking(name: str, index: Index[ConfigMap], value: str) -> Controller[Toy]:
        async def look(ctx: Context[Toy]) -> None:
            found[name] = [one.name for one in await ctx.client.list(ConfigMap, index=("it", value))]
            with pytest.raises(KeyError) as caught:
                await ctx.client.list(ConfigMap, index=("other", value))
            errors.append(str(caught.value))

        return Controller(Toy, look, name=name, reads=[ConfigMap], indexes={"it": index})

    for config in CONFIGS:
        await world.client.create(config)
    await world.make("a")
    one = looking("one", Index(ConfigMap, tier), "web")
    other = looking("other", Index(ConfigMap, lambda config: config.name), "c")
    async with world.running(one, other):
        await anyio.sleep(1)
    assert found == {"one": ["a"], "other": ["c"]}
    assert "has no index 'other'; Controller(indexes=) declares: ['it']" in errors[0]


async def test_an_undeclared_index_cannot_be_read_without_a_cache() -> None:
    with pytest.raises(NotCached, match="no index 'by-tier'"):
        await FakeClient().list(ConfigMap, index=("by-tier", "web"))


@pytest.mark.parametrize(
    ("result", "found"), [(None, []), ("x", ["x"]), (["x", 5], ["x", 5]), (7, None), ([[]], None)]
)
async def test_an_index_accepts_text_or_several_hashable_values(result: object, found: object) -> None:
    client = FakeClient(CONFIGS[0])
    (snapshot,) = await client.raw.snapshots(ConfigMap.__kind__.resource)
    index = Index(ConfigMap, lambda config: result)  # type: ignore[arg-type, return-value]
    if found is None:
        with pytest.raises(TypeError):
            index.values(snapshot)
    else:
        assert list(index.values(snapshot)) == found


def test_an_index_of_a_kind_that_the_controller_does_not_read_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"indexes= 'it': Index\(Secret\): it does not read Secret: add it to reads="
    ):
        Controller(Toy, lambda ctx: None, indexes={"it": Index(Secret, lambda secret: secret.name)})
