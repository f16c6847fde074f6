"""What is applied is built for it: a type of its own, and at run time nothing that was read."""

import pytest
from attrs import evolve

from reconcile import Intent, ObjectMeta
from reconcile.kinds import ConfigMap, Deployment
from reconcile.testing import FakeClient

WANTED = Intent(ConfigMap, metadata=ObjectMeta("a", "default"), data={"k": "v"})


async def test_an_intent_is_applied_as_the_object_of_its_fields() -> None:
    live = await FakeClient().apply(WANTED)
    assert (live.name, live.data, bool(live.uid)) == ("a", {"k": "v"}, True)


def test_an_intent_has_its_object_and_equals_another_with_the_same_fields() -> None:
    assert WANTED.object == ConfigMap(metadata=ObjectMeta("a", "default"), data={"k": "v"})
    assert Intent(ConfigMap, metadata=ObjectMeta("a", "default"), data={"k": "v"}) == WANTED


def test_a_missing_field_is_an_error_where_the_intent_is_created() -> None:
    with pytest.raises(TypeError, match="spec"):
        Intent(Deployment, metadata=ObjectMeta("a"))  # type: ignore[call-arg]


@pytest.mark.rule("model-intent")
async def test_an_object_that_was_read_cannot_be_applied_in_any_wrapping() -> None:
    client = FakeClient()
    live = await client.apply(WANTED)
    for one in (live, Intent(lambda: live), Intent(ConfigMap, metadata=live.metadata, data={"k": "w"})):
        with pytest.raises(TypeError, match="apply takes an intent, and ConfigMap 'default/a' was read"):
            await client.apply(one)  # type: ignore[arg-type]
    assert await client.get(ConfigMap, "a", "default") == live
    other = Intent(evolve, live, metadata=ObjectMeta("a", "default"), data={"k": "w"})
    assert (await client.apply(other)).data == {"k": "w"}
