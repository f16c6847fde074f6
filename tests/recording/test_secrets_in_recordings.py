"""No secret is in the bytes of a recording, and equal secrets stay equal."""

import base64
import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import Context, Intent, ObjectMeta
from reconcile.kinds import ConfigMap, Secret
from reconcile.recording import read_recording, secret_masks
from reconcile.recording.recorded_events import Answered, Changed, Ended
from reconcile.recording.recording_frames import read_first_line, read_pieces
from reconcile.recording.secret_masks import SecretMasks
from reconcile.testing import FakeClient, Refuse
from reconcile.testing.recorded_runs import replay_recording
from tests.recording.recorded_sites import PASSWORD, TOKEN, Site, SiteSpec, recorded, site, sites
from tests.recording.recorded_worlds import record
from tests.simulation.bundled_scenarios import registry_secrets


def plain_bytes(path: Path) -> bytes:
    """All bytes of a recording's file, decompressed, and its events with whole bodies."""
    with path.open("rb") as file:
        _, compression = read_first_line(file)
        pieces = [*read_pieces(file, compression)]
    return b"".join([*pieces, *map(msgspec.msgpack.encode, read_recording(path).events())])


def forms(value: str) -> set[bytes]:
    encoded = base64.b64encode(value.encode())
    return {value.encode(), encoded, json.dumps(value).encode()[1:-1], base64.b64encode(encoded)}


def secret(name: str = "login", password: str = PASSWORD) -> Secret:
    data = {"password": base64.b64encode(password.encode()).decode()}
    return Secret(metadata=ObjectMeta(name, "default"), data=data)


async def spill(ctx: Context[Site]) -> None:
    """Puts the password wherever it should not be: into an object, a name of a field, a status, an error."""
    login = await ctx.client.get(Secret, "login", "default")
    password = base64.b64decode(login.data["password"]).decode()
    page = {"url": f"https://me:{password}@db", "again": login.data["password"]}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=page))
    await ctx.client.apply(Intent(Secret, metadata=ObjectMeta("copy", "default"), data=dict(login.data)))
    raise RuntimeError(f"cannot log in with {password}")


@pytest.mark.rule("recording-secrets")
def test_no_value_of_a_secret_is_in_the_bytes_whatever_a_run_does_with_it(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    recording = recorded(path, site(token=TOKEN), secret(), controller=sites(spill, reads=[Secret]))
    found = plain_bytes(path)
    assert b"configmaps" in found
    assert b"RuntimeError" in found
    for value in (PASSWORD, TOKEN):
        assert [form for form in forms(value) if form in found] == []
    assert replay_recording(recording, [sites(spill, reads=[Secret])]).identical


@pytest.mark.rule("recording-secrets")
def test_what_a_run_put_elsewhere_is_masked_in_the_answers_of_others_too(tmp_path: Path) -> None:
    async def look(client: FakeClient) -> None:
        found = await client.get(ConfigMap, "web", "default", live=True)
        await client.modify(
            ConfigMap, "web", "default", lambda one: one.replace(data={**found.data, "more": "yes"})
        )
        await anyio.sleep(2)

    path = tmp_path / "rec"
    recorded(path, site(), secret(), controller=sites(spill, reads=[Secret]), act=look)
    assert b'"more"' in plain_bytes(path)
    assert [form for form in forms(PASSWORD) if form in plain_bytes(path)] == []


@pytest.mark.rule("recording-secrets")
def test_a_refusal_that_quotes_a_secret_field_is_masked_and_the_error_of_the_run_too(
    tmp_path: Path,
) -> None:
    async def copy(ctx: Context[Site]) -> None:
        spec = SiteSpec(token=TOKEN)
        await ctx.client.apply(Intent(Site, metadata=ObjectMeta("other", "default"), spec=spec))

    async def refuse(client: FakeClient) -> None:
        quoting = Refuse(422, message=f'spec.token: Invalid value: "{TOKEN}": too short')
        client.fail("patch", "*/sites/other", quoting, times=None)
        await client.create(site())

    path = tmp_path / "rec"
    recording = recorded(path, controller=evolve(sites(copy), writes=[Site]), act=refuse)
    (ended, *_) = [event for event in recording.events() if isinstance(event, Ended)]
    assert "Invalid value" in ended.message
    assert TOKEN.encode() not in plain_bytes(path)


@pytest.mark.rule("recording-secrets")
def test_a_recording_ends_rather_than_to_miss_a_value_that_a_run_has_put_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(secret_masks, "MOST_EXPOSED", 1)
    path = tmp_path / "rec"
    recorded(path, site(), secret(), controller=sites(spill, reads=[Secret]))
    ends = [line for line in caplog.text.splitlines() if "the recording has ended" in line]
    assert len(ends) == 1
    assert "more than 1 values of Secrets into other objects" in ends[0]
    assert [form for form in forms(PASSWORD) if form in plain_bytes(path)] == []


FORMER = "the password before"
COPIES = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "kopf.zalando.org/last-handled-configuration",
    "sites.example.com/last-handled-configuration-ofDRS",
)


@pytest.mark.parametrize("copy", COPIES)
def test_a_secret_is_masked_with_the_values_that_a_copy_in_an_annotation_still_has(
    tmp_path: Path, copy: str
) -> None:
    former = base64.b64encode(FORMER.encode()).decode()
    noted = {copy: json.dumps({"data": {"password": former}})}
    path = tmp_path / "rec"
    recorded(path, secret().with_metadata(annotations=noted), controller=sites(reads=[Secret]))
    assert b"last-" in plain_bytes(path)
    assert [form for form in forms(FORMER) if form in plain_bytes(path)] == []


@pytest.mark.parametrize("copy", COPIES)
def test_a_field_that_is_declared_secret_is_masked_with_the_copy_of_it(tmp_path: Path, copy: str) -> None:
    noted = site(token=TOKEN)
    applied = {copy: json.dumps({"spec": {"token": TOKEN}})}
    path = tmp_path / "rec"
    recorded(path, noted.with_metadata(annotations=applied))
    assert b'"token":"masked-' in plain_bytes(path)
    assert TOKEN.encode() not in plain_bytes(path)


def test_equal_secrets_stay_equal_and_others_differ(tmp_path: Path) -> None:
    objects = secret("one"), secret("other"), secret("third", "another password")
    recording = recorded(tmp_path / "rec", *objects, controller=sites(reads=[Secret]))
    bodies = [body for one in recording.events() if isinstance(one, Changed) for body in one.objects]
    found = {
        obj["metadata"]["name"]: obj["data"]["password"]
        for obj in map(json.loads, bodies)
        if obj.get("kind") == "Secret"
    }
    assert found["one"] == found["other"] != found["third"]
    assert base64.b64decode(found["one"]).startswith(b"masked-")


def test_the_masks_of_two_recordings_differ(tmp_path: Path) -> None:
    controller = sites(spill, reads=[Secret])
    one, other = (recorded(tmp_path / name, site(), secret(), controller=controller) for name in "ab")
    bodies = [
        {event.body for event in recording.events() if isinstance(event, Answered) and b"copy" in event.body}
        for recording in (one, other)
    ]
    assert all(bodies)
    assert not bodies[0] & bodies[1]


def test_the_passwords_of_copied_registry_secrets_are_in_no_recording(tmp_path: Path) -> None:
    paths = record(registry_secrets(), tmp_path)
    found = b"".join(map(plain_bytes, paths))
    assert b"dockerconfigjson" in found
    for password in ("one", "two"):
        login = {"auths": {"registry.example.com": {"username": "ci", "password": password}}}
        assert base64.b64encode(json.dumps(login).encode()) not in found
        assert f'"password":"{password}"'.encode() not in found.replace(b" ", b"")


# --- laws -------------------------------------------------------------------------------------------------

MASKS = SecretMasks(
    b"k" * 32, {("example.com", "sites"): [("spec", "logins", "token"), ("spec", "logins", "*", "token")]}
)
VALUES = st.text(min_size=4, max_size=60).filter(lambda text: "masked" not in text)


def secret_body(**parts: Any) -> bytes:
    return json.dumps({"kind": "Secret", "metadata": {"name": "a"}, **parts}).encode()


@settings(max_examples=30, deadline=None)
@given(VALUES)
def test_a_masked_secret_has_no_trace_of_its_values_and_masks_them_alike(value: str) -> None:
    encoded = base64.b64encode(value.encode()).decode()
    body = secret_body(data={"a": encoded, "b": encoded}, stringData={"c": value})
    masked = json.loads(MASKS.body(("", "secrets"), "", body))
    assert masked["data"]["a"] == masked["data"]["b"] != encoded
    assert base64.b64decode(masked["data"]["a"]).decode() == masked["stringData"]["c"] != value


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=4, max_size=60))
def test_a_value_is_masked_in_what_a_run_sends_as_it_is_in_the_secret(value: str) -> None:
    encoded = base64.b64encode(value.encode()).decode()
    masks = SecretMasks(b"k" * 32, {})
    body = secret_body(data={"a": encoded})
    kept = json.loads(masks.body(("", "secrets"), "", body))["data"]["a"]
    sent = json.dumps({"data": {"copy": encoded}}).encode()
    assert json.loads(masks.elsewhere(sent, [body]))["data"]["copy"] == kept


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_body_of_a_secret_is_masked_without_an_error(value: Any) -> None:
    MASKS.body(("", "secrets"), "", json.dumps(value).encode())
    MASKS.body(("", "secrets"), "", json.dumps({"data": value, "metadata": value}).encode())
    MASKS.body(("example.com", "sites"), "", json.dumps({"spec": {"logins": value}}).encode())


def test_secret_fields_in_lists_and_maps_are_masked() -> None:
    body = {"spec": {"logins": [{"token": "one"}, {"token": "two", "name": "kept"}]}}
    (one, two) = json.loads(MASKS.body(("example.com", "sites"), "", json.dumps(body).encode()))["spec"][
        "logins"
    ]
    assert one["token"].startswith("masked-")
    assert two["token"].startswith("masked-")
    assert two["token"] != one["token"]
    assert two["name"] == "kept"


@pytest.mark.rule("recording-secrets")
@pytest.mark.parametrize("key", ["east", "token", "logins", "spec"])
def test_a_secret_field_in_a_map_is_masked_whatever_the_keys_are(key: str) -> None:
    logins = {key: {"token": "the one"}, "west": {"token": "the other"}}
    masked = MASKS.body(("example.com", "sites"), "", json.dumps({"spec": {"logins": logins}}).encode())
    assert b"the one" not in masked
    assert b"the other" not in masked


def test_tokens_that_the_server_issues_and_checks_are_masked() -> None:
    issued = MASKS.body(("", "serviceaccounts"), "token", b'{"status":{"token":"abcdef"}}')
    checked = MASKS.body(("authentication.k8s.io", "tokenreviews"), "", b'{"spec":{"token":"abcdef"}}')
    assert b"abcdef" not in issued + checked


def test_a_json_patch_of_a_secret_is_masked() -> None:
    patch = json.dumps([{"op": "replace", "path": "/data/password", "value": "aHVudGVyMjI="}]).encode()
    masked = MASKS.body(("", "secrets"), "", patch)
    assert b"aHVudGVyMjI=" not in masked
    assert json.loads(masked)[0]["path"] == "/data/password"


@pytest.mark.rule("recording-secrets")
@pytest.mark.parametrize("copy", COPIES)
def test_a_json_patch_that_sets_a_copy_in_an_annotation_is_masked_and_no_other_metadata(
    copy: str,
) -> None:
    noted = json.dumps({"data": {"password": "aHVudGVyMjI="}})
    name = copy.replace("/", "~1")
    patch = [
        {"op": "add", "path": f"/metadata/annotations/{name}", "value": noted},
        {"op": "add", "path": "/metadata/annotations", "value": {copy: noted}},
        {"op": "add", "path": "/metadata/annotations/example.com~1seen", "value": "yes"},
        {"op": "test", "path": "/metadata/uid", "value": "1-2-3"},
    ]
    masked = MASKS.body(("", "secrets"), "", json.dumps(patch).encode())
    assert b"aHVudGVyMjI=" not in masked
    assert [step["value"] for step in json.loads(masked)[2:]] == ["yes", "1-2-3"]
