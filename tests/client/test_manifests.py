"""Manifests in YAML, as people write them, are objects to apply and to create."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Context, Controller, Object, ObjectMeta
from reconcile.client.manifests import manifest_of
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy

TEXT = """
# What the shop needs.
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: default
  annotations: {since: "2026-01-01"}
data:
  colour: "no"
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab: #\n'", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


async def test_a_manifest_is_applied_and_the_same_text_is_not_sent_again() -> None:
    client = FakeClient()
    made = await client.apply(TEXT)
    assert (made.name, made["data"]) == ("settings", {"colour": "no"})
    await client.apply(TEXT)
    assert len(client.transport.writes) == 1
    await client.apply(TEXT.replace('"no"', '"yes"'))
    assert (await client.get(ConfigMap, "settings", "default")).data == {"colour": "yes"}


async def test_a_manifest_is_created_and_may_be_a_child() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.create(TEXT)
        await ctx.apply(TEXT.replace("settings", "more").replace("  namespace: default\n", ""))

    toy: Object = Toy(metadata=ObjectMeta("toy", "default"))
    client = FakeClient(toy)
    assert (await run_once(Controller(Toy, keep, owns=[ConfigMap]), toy, client)).error is None
    owned = await client.list(ConfigMap, "default", owner=await client.get(Toy, "toy", "default"))
    assert sorted(one.name for one in owned) == ["more", "settings"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds 0 documents"),
        ("--- a", "describes one object"),
        (f"{TEXT}---{TEXT}", "holds 2 documents"),
        ("a: [", "not YAML"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "'c' is there twice"),
        ("!!python/object:os.system x", "not YAML"),
        ("on: x", "True is not text"),
        ("y: 1", "True is not text"),
        ("kind: ConfigMap", "needs apiVersion and kind"),
    ],
)
async def test_text_that_is_not_a_manifest_is_refused_with_the_reason(text: str, why: str) -> None:
    client = FakeClient()
    with pytest.raises(ValueError, match=why):
        await client.apply(text)
    assert client.transport.requests == []


def test_timestamps_remain_text() -> None:
    assert manifest_of("at: 2026-01-01T00:00:00Z\nday: 2026-01-01") == {
        "at": "2026-01-01T00:00:00Z",
        "day": "2026-01-01",
    }


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), JSON, min_size=1, max_size=3))
def test_a_manifest_written_as_yaml_is_read_back_unchanged(manifest: dict[str, object]) -> None:
    assert manifest_of(yaml.safe_dump(manifest)) == manifest


def test_scalars_are_read_as_kubectl_reads_them() -> None:
    assert manifest_of("at: 12:30\nmac: 52:54:00:12:34:56\nmost: 1e3\nmatch: =\non_call: y") == {
        "at": "12:30",
        "mac": "52:54:00:12:34:56",
        "most": 1000,
        "match": "=",
        "on_call": True,
    }


def test_anchors_and_merges_are_resolved() -> None:
    text = "base: &b {x: 1, z: 2}\nmore:\n  <<: *b\n  z: 3\n"
    assert manifest_of(text)["more"] == {"x": 1, "z": 3}
