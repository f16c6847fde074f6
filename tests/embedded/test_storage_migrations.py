"""StorageVersionMigrations: objects are written anew, and the definition says so.

The conditions are those of kube-controller-manager 1.36.2 (`conversion/migration` of the recordings).
"""

from typing import Any

import pytest

from reconcile.embedded import ConversionFailed, InProcessTransport
from tests.embedded.api_client import DEFINITIONS, Api
from tests.embedded.conversion_world import DEFINED, OLD, Converting, drop_new_version, move_storage
from tests.embedded.versioned_things import collection, thing, things, version

MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
THINGS = {"group": "shop.example.com", "resource": "things"}


@pytest.fixture
def world() -> Converting:
    world = Converting()
    world.converter.opened.set()
    return world


def migrate(api: Api, name: str = "m", **resource: str) -> dict[str, Any]:
    return api.ok("POST", MIGRATIONS, {"metadata": {"name": name}, "spec": {"resource": THINGS | resource}})


def conditions(obj: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in obj["status"].get("conditions", ())}


def state(api: Api, name: str = "m") -> dict[str, tuple[str, str]]:
    return conditions(api.ok("GET", f"{MIGRATIONS}/{name}"))


def stored_versions(api: Api) -> list[str]:
    versions: list[str] = api.ok("GET", DEFINED)["status"]["storedVersions"]
    return versions


def fail(obj: dict[str, Any]) -> None:
    raise ConversionFailed("down")


SUCCEEDED = {
    "Running": ("False", "MigrationCompleted"),
    "Succeeded": ("True", "StorageVersionMigrationSucceeded"),
}
RUNNING = {"Running": ("True", "MigrationRunning")}


async def test_every_object_is_written_in_the_storage_version(world: Converting) -> None:
    made = world.make(replicas=3)
    move_storage(world.api)
    assert stored_versions(world.api) == ["v1", "v1alpha1"]
    migrate(world.api)
    await world.api.server.settle_waiting()
    assert state(world.api) == SUCCEEDED
    assert stored_versions(world.api) == ["v1alpha1"]
    migrating = conditions(world.api.ok("GET", DEFINED))["StorageMigrating"]
    assert migrating == ("False", "MigrationSucceeded")
    (stored,) = world.api.server.log.snapshot(("shop.example.com", "things"))
    kept = stored.decode()
    assert (kept["apiVersion"], kept["spec"]) == ("shop.example.com/v1alpha1", {"size": 3})
    assert kept["metadata"]["managedFields"] == made["metadata"]["managedFields"]
    assert kept["metadata"]["generation"] == made["metadata"]["generation"]
    world.converter.asked.clear()
    assert world.api.ok("GET", f"{OLD}/a")["spec"] == {"size": 3}
    assert world.converter.asked == []


async def test_without_a_webhook_objects_are_migrated_too() -> None:
    api = Api()
    old, new = version("v1alpha1", "note"), version("v1", "note")
    api.ok("POST", DEFINITIONS, things({**old, "storage": True}, {**new, "storage": False}))
    api.ok("POST", collection("v1"), thing("v1", note=1))
    api.merge(DEFINED, {"spec": {"versions": [{**old, "storage": False}, {**new, "storage": True}]}})
    migrate(api)
    await api.server.settle_waiting()
    assert (state(api), stored_versions(api)) == (SUCCEEDED, ["v1"])
    (stored,) = api.server.log.snapshot(("shop.example.com", "things"))
    assert stored.decode()["apiVersion"] == "shop.example.com/v1"


async def test_a_migration_goes_on_when_an_object_can_be_converted_again(world: Converting) -> None:
    world.make(replicas=3)
    move_storage(world.api)
    world.converter.change = fail
    migrate(world.api)
    for _ in range(2):
        await world.api.server.settle_waiting()
        assert state(world.api) == RUNNING
        assert conditions(world.api.ok("GET", DEFINED))["StorageMigrating"] == ("True", "MigrationRunning")
    world.converter.change = lambda obj: None
    await world.api.server.settle_waiting()
    assert (state(world.api), stored_versions(world.api)) == (SUCCEEDED, ["v1alpha1"])


async def test_stored_versions_stay_if_the_definition_changed_meanwhile(world: Converting) -> None:
    world.make(replicas=3)
    move_storage(world.api)

    def change_once(obj: dict[str, Any]) -> None:
        world.converter.change = lambda obj: None
        names = world.api.ok("GET", DEFINED)["spec"]["names"]
        world.api.merge(DEFINED, {"spec": {"names": {**names, "shortNames": ["th"]}}})

    world.converter.change = change_once
    migrate(world.api)
    await world.api.server.settle_waiting()
    assert (state(world.api), stored_versions(world.api)) == (SUCCEEDED, ["v1", "v1alpha1"])
    migrating = world.api.ok("GET", DEFINED)["status"]["conditions"][-1]
    assert migrating["message"].endswith("have not been updated due to a generation mismatch")


async def test_an_object_changed_or_deleted_meanwhile_needs_no_migration(world: Converting) -> None:
    world.make(replicas=3)
    move_storage(world.api)

    def delete_once(obj: dict[str, Any]) -> None:
        world.converter.change = lambda obj: None
        world.api.server.log.append(("shop.example.com", "things"), stored.key, None)

    (stored,) = world.api.server.log.snapshot(("shop.example.com", "things"))
    world.converter.change = delete_once
    migrate(world.api)
    await world.api.server.settle_waiting()
    await world.api.server.settle_waiting()
    assert state(world.api) == SUCCEEDED
    assert world.api.ok("GET", OLD)["items"] == []


async def test_migrations_of_one_resource_run_one_after_the_other(world: Converting) -> None:
    world.make(replicas=3)
    move_storage(world.api)
    world.converter.change = fail
    migrate(world.api, "b")
    migrate(world.api, "a")
    world.api.clock.advance(1)
    migrate(world.api, "0")
    migrate(world.api, "other", group="", resource="configmaps")
    await world.api.server.settle_waiting()
    assert [state(world.api, name) for name in ("0", "a", "b", "other")] == [{}, RUNNING, {}, SUCCEEDED]
    world.converter.change = lambda obj: None
    await world.api.server.settle_waiting()
    assert [state(world.api, name) for name in ("0", "a", "b")] == [SUCCEEDED] * 3


async def test_a_migration_of_an_unknown_resource_fails_after_a_minute(world: Converting) -> None:
    migrate(world.api, resource="others")
    await world.api.server.settle_waiting()
    assert state(world.api) == RUNNING
    world.api.clock.advance(60)
    await world.api.server.settle_waiting()
    assert state(world.api)["Failed"] == ("True", "StorageVersionMigrationFailed")


async def test_a_transport_that_settles_migrates_after_the_write(world: Converting) -> None:
    from informers.transport import HttpRequest

    world.make(replicas=3)
    move_storage(world.api)
    transport = InProcessTransport(world.api.server, settle=True)
    body = b'{"metadata":{"name":"m"},"spec":{"resource":{"group":"shop.example.com","resource":"things"}}}'
    request = HttpRequest("POST", MIGRATIONS, headers={"content-type": "application/json"}, body=body)
    assert (await transport.request(request)).status == 201
    assert state(world.api) == SUCCEEDED


async def test_the_resource_of_a_migration_is_required_and_fixed(world: Converting) -> None:
    missing = world.api.send("POST", MIGRATIONS, {"metadata": {"name": "x"}, "spec": {"resource": {}}})
    assert missing.causes == [("FieldValueRequired", "spec.resource.resource")]
    migrate(world.api)
    patch = {"spec": {"resource": {"resource": "others"}}}
    refused = world.api.send("PATCH", f"{MIGRATIONS}/m", patch, content_type="application/merge-patch+json")
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "spec")])
    wanted = '{"Resource":{"group":"shop.example.com","resource":"others"}}: field is immutable'
    assert wanted in refused.body["message"]
    v1 = world.api.ok("GET", f"{MIGRATIONS.replace('v1beta1', 'v1')}/m")
    assert v1["apiVersion"] == "storagemigration.k8s.io/v1"


@pytest.mark.parametrize("kind", ["Succeeded", "Failed"])
async def test_an_end_of_a_migration_cannot_be_taken_back(world: Converting, kind: str) -> None:
    migrate(world.api)
    end = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": ""}
    world.api.merge(f"{MIGRATIONS}/m/status", {"status": {"conditions": [{"type": kind, **end}]}})
    for conditions_after in ([], [{"type": kind, **end}, {"type": "Running", **end}]):
        body = {"status": {"conditions": conditions_after}}
        refused = world.api.send(
            "PATCH", f"{MIGRATIONS}/m/status", body, content_type="application/merge-patch+json"
        )
        assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "status.conditions")])


# --- what controllers cannot read -------------------------------------------------------------


async def settle(world: Converting) -> None:
    world.api.server.settle()
    await world.api.server.settle_waiting()


def down(obj: dict[str, Any]) -> None:
    raise ConversionFailed("down")


async def test_a_namespace_stays_while_objects_elsewhere_cannot_be_converted(world: Converting) -> None:
    world.make(replicas=3)
    move_storage(world.api)
    await world.send("PATCH", f"{OLD}/a", {})  # now stored in v1alpha1, and v1 is preferred
    world.converter.change = down
    world.api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    world.api.ok("DELETE", "/api/v1/namespaces/x")
    await settle(world)
    left = world.api.ok("GET", "/api/v1/namespaces/x")
    assert [(one["status"], one["reason"]) for one in left["status"]["conditions"]][2] == (
        "True",
        "ContentDeletionFailed",
    )
    version = left["metadata"]["resourceVersion"]
    await settle(world)
    assert world.api.ok("GET", "/api/v1/namespaces/x")["metadata"]["resourceVersion"] == version
    world.converter.change = lambda obj: None
    await settle(world)
    assert world.api.gone("/api/v1/namespaces/x")
    assert world.api.ok("GET", f"{OLD}/a")


async def test_a_namespace_ends_without_conversion_if_all_is_stored_as_it_is_read(world: Converting) -> None:
    world.make(replicas=3)
    world.converter.change = down
    world.api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    world.api.ok("DELETE", "/api/v1/namespaces/x")
    await settle(world)
    assert world.api.gone("/api/v1/namespaces/x")


async def test_an_object_that_cannot_be_converted_is_not_collected_and_others_are(world: Converting) -> None:
    owner = world.api.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "o"}})
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"]}]
    child = {"metadata": {"name": "c", "ownerReferences": owners}}
    world.api.ok("POST", "/api/v1/namespaces/default/configmaps", child)
    move_storage(world.api)
    made = thing("v1alpha1", size=1)
    await world.send("POST", OLD, {**made, "metadata": {"name": "a", "ownerReferences": owners}})
    world.converter.change = down
    world.api.ok("DELETE", "/api/v1/namespaces/default/configmaps/o")
    await settle(world)
    assert world.api.gone("/api/v1/namespaces/default/configmaps/c")
    assert world.api.ok("GET", f"{OLD}/a")
    world.converter.change = lambda obj: None
    await settle(world)
    assert world.api.gone(f"{OLD}/a")


async def test_an_object_of_a_dropped_version_stops_namespaces_and_its_definition(world: Converting) -> None:
    world.make(replicas=3)
    versions = world.api.ok("GET", DEFINED)["spec"]["versions"]
    drop_new_version(world.api)
    world.api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    world.api.ok("DELETE", "/api/v1/namespaces/x")
    world.api.ok("DELETE", DEFINED)
    await settle(world)
    assert world.api.ok("GET", "/api/v1/namespaces/x")["status"]["phase"] == "Terminating"
    assert world.api.ok("GET", DEFINED)["metadata"]["deletionTimestamp"]
    assert not world.api.server._waiting.pending, "no conversion can help"
    back = [{**versions[0], "storage": True}, {**versions[1], "storage": False}]
    world.api.merge(DEFINED, {"spec": {"versions": back}})
    await settle(world)
    await settle(world)
    assert world.api.gone("/api/v1/namespaces/x")
    assert world.api.gone(DEFINED)
