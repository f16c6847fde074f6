"""A server that starts from its data folder is the one that ended."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from reconcile.embedded import User, WatchStream
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.durable.files import DataFault
from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    WIDGETS,
    Api,
    StillClock,
    config_map,
    definition,
    events,
    owned_by,
    pod,
    widget,
)
from tests.embedded.durable_worlds import kept, objects, places, segments

SERVICES = "/api/v1/namespaces/default/services"
EVENTS = "/api/v1/namespaces/default/events"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"


def service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


def fill(api: Api) -> None:
    """Some of everything: custom and built-in objects, changes, removals, owners, finalizers."""
    owner = api.ok("POST", CONFIG_MAPS, config_map("owner"))
    api.ok("POST", CONFIG_MAPS, config_map("owned", ownerReferences=owned_by(owner)))
    api.ok(
        "POST",
        WIDGETS,
        widget("a", spec={"color": "blue"}, labels={"app": "a"}, finalizers=["example.com/f"]),
    )
    api.merge(f"{WIDGETS}/a", {"spec": {"size": 3}})
    api.ok("DELETE", f"{WIDGETS}/a")
    api.ok("POST", CONFIG_MAPS, config_map("gone", {"a": "b"}))
    api.ok("DELETE", f"{CONFIG_MAPS}/gone")
    api.ok("POST", PODS, pod("p"))
    api.ok("POST", SERVICES, service("s"))
    api.server.settle()


def history(api: Api, path: str, after: int) -> list[bytes]:
    return api.watch(path, resourceVersion=str(after)).take()


def test_objects_versions_uids_and_history_are_those_before(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path / "data", clock) as api:
        begun = api.server.version
        fill(api)
        before = objects(api.server), api.server.version
        watched = [history(api, path, begun) for path in (WIDGETS, CONFIG_MAPS, PODS)]
        assert all(watched)
    with kept(tmp_path / "data", clock) as api:
        assert (objects(api.server), api.server.version) == before
        assert [history(api, path, begun) for path in (WIDGETS, CONFIG_MAPS, PODS)] == watched
        api.server.settle()
        assert (objects(api.server), api.server.version) == before
        assert int(api.ok("POST", CONFIG_MAPS, config_map("next"))["metadata"]["resourceVersion"]) > before[1]


def test_a_list_at_an_older_version_and_a_page_go_on(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        for number in range(4):
            api.ok("POST", CONFIG_MAPS, config_map(f"m{number}"))
        page = api.ok("GET", CONFIG_MAPS, query={"limit": "2"})
        api.ok("DELETE", f"{CONFIG_MAPS}/m3")
    with kept(tmp_path, clock) as api:
        rest = api.ok("GET", CONFIG_MAPS, query={"limit": "2", "continue": page["metadata"]["continue"]})
        assert [one["metadata"]["name"] for one in rest["items"]] == ["m2", "m3"]


def test_a_watch_from_before_the_kept_history_is_expired(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        begun = api.server.version
        for number in range(30):
            api.ok("POST", CONFIG_MAPS, config_map(f"m{number}"))
    with kept(tmp_path, clock, history=10) as api:
        [(kind, status)] = events(api.watch(CONFIG_MAPS, resourceVersion=str(begun)))
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


def test_work_of_controllers_that_was_open_is_done_after_the_start(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        owner = api.ok("POST", CONFIG_MAPS, config_map("owner"))
        api.ok("POST", CONFIG_MAPS, config_map("owned", ownerReferences=owned_by(owner)))
        api.ok("DELETE", f"{CONFIG_MAPS}/owner")
        api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "ends"}})
        api.ok("POST", "/api/v1/namespaces/ends/configmaps", config_map())
        api.ok("DELETE", "/api/v1/namespaces/ends")
    with kept(tmp_path, clock) as api:
        api.server.settle()
        assert api.gone(f"{CONFIG_MAPS}/owned")
        assert api.gone("/api/v1/namespaces/ends")
        assert api.gone("/api/v1/namespaces/ends/configmaps/a")


def test_tokens_stay_good_and_are_signed_by_the_same_key(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        token = api.ok("POST", TOKENS, {"spec": {}})["status"]["token"]
    with kept(tmp_path, clock) as api:
        user = api.server.tokens.user_of(token)
        assert isinstance(user, User)
        assert user.name == "system:serviceaccount:default:default"
        clock.advance(3700)
        assert api.server.tokens.user_of(token) is None


def test_no_service_gets_an_address_that_another_one_has(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        first = [api.ok("POST", SERVICES, service(f"a{n}"))["spec"]["clusterIP"] for n in range(3)]
    with kept(tmp_path, clock) as api:
        second = [api.ok("POST", SERVICES, service(f"b{n}"))["spec"]["clusterIP"] for n in range(3)]
    assert len({*first, *second}) == 6


def test_events_expire_an_hour_after_they_were_written(tmp_path: Path) -> None:
    clock = StillClock()
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Tested"}
    with kept(tmp_path, clock) as api:
        api.ok("POST", EVENTS, event)
    clock.advance(3000)
    with kept(tmp_path, clock) as api:
        api.server.settle()
        assert not api.gone(f"{EVENTS}/e")
        clock.advance(601)
        api.server.settle()
        assert api.gone(f"{EVENTS}/e")


def test_quotas_go_on_counting(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/widgets.example.com": "1"}}}
        api.ok("POST", "/api/v1/namespaces/default/resourcequotas", quota)
        api.ok("POST", WIDGETS, widget("a"))
    with kept(tmp_path, clock) as api:
        assert api.send("POST", WIDGETS, widget("b")).status == 403


def test_what_was_removed_from_a_fresh_server_stays_removed(tmp_path: Path) -> None:
    clock = StillClock()
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit"
    with kept(tmp_path, clock) as api:
        changed = api.merge(role, {"metadata": {"labels": {"mine": "yes"}}})
    with kept(tmp_path, clock) as api:
        assert api.ok("GET", role) == changed


# --- definitions ------------------------------------------------------------------------------


def test_an_object_under_an_older_schema_is_shown_as_it_was_shown_before(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        api.ok("POST", WIDGETS, widget("a"))
        changed = definition()
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
            "mood"
        ] = {
            "type": "string",
            "default": "calm",
        }
        api.merge(f"{DEFINITIONS}/widgets.example.com", {"spec": changed["spec"]})
        before = api.ok("GET", f"{WIDGETS}/a")
        assert before["spec"]["mood"] == "calm"
    for _ in range(2):
        with kept(tmp_path, clock) as api:
            assert api.ok("GET", f"{WIDGETS}/a") == before
    with kept(tmp_path, clock) as api:
        assert api.merge(f"{WIDGETS}/a", {"spec": {"size": 1}})["spec"]["mood"] == "calm"


def test_objects_of_a_definition_that_is_gone_do_not_hinder_the_start(tmp_path: Path) -> None:
    clock = StillClock()
    with kept(tmp_path, clock) as api:
        api.ok("POST", WIDGETS, widget("a", finalizers=["example.com/f"]))
        api.ok("DELETE", f"{DEFINITIONS}/widgets.example.com")
        api.merge(f"{DEFINITIONS}/widgets.example.com", {"metadata": {"finalizers": None}})
        left = objects(api.server)
        assert ("example.com", "widgets", "default", "a") in left
    with DataFolder(tmp_path, clock=clock) as folder:
        assert any(record.plural == "widgets" for record in folder.found.changes)
    with kept(tmp_path, clock) as api:  # which defines them again
        assert api.ok("GET", f"{WIDGETS}/a")["metadata"]["finalizers"] == ["example.com/f"]


def test_of_two_definitions_with_the_same_names_the_first_stays_served(tmp_path: Path) -> None:
    clock = StillClock()
    rival = definition(
        names={"plural": "gizmos", "singular": "gizmo", "kind": "Widget", "listKind": "WidgetList"}
    )
    rival["metadata"]["name"] = "gizmos.example.com"
    with kept(tmp_path, clock) as api:
        api.ok("POST", DEFINITIONS, rival)
        before = objects(api.server)
    with kept(tmp_path, clock) as api:
        api.server.settle()
        assert objects(api.server) == before
        assert api.ok("GET", WIDGETS)["kind"] == "WidgetList"


# --- the folder -------------------------------------------------------------------------------


def test_folder_and_files_are_private(tmp_path: Path) -> None:
    os.umask(0)
    path = tmp_path / "new" / "data"
    with kept(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


def test_two_servers_cannot_have_one_folder(tmp_path: Path) -> None:
    with kept(tmp_path), pytest.raises(DataFault, match=f"process {os.getpid()}") as refused:
        DataFolder(tmp_path)
    assert "stop it" in refused.value.hint
    with kept(tmp_path):
        pass


def test_a_folder_serves_one_server(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        Api(data=folder)
        with pytest.raises(ValueError, match="already"):
            Api(data=folder)


def test_a_file_and_a_folder_of_something_else_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(DataFault, match=r"is a file: name a folder"):
        DataFolder(file)
    with pytest.raises(DataFault, match="holds file and no log"):
        DataFolder(tmp_path)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_folder_that_may_not_be_written_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system", str(tmp_path))

    monkeypatch.setattr(f"os.{call}", refused)
    with pytest.raises(DataFault, match="Read-only file system") as fault:
        DataFolder(tmp_path / "data" if call == "mkdir" else tmp_path)
    assert "\n" not in str(fault.value)


def test_a_log_of_a_newer_format_is_refused_also_for_a_repair(tmp_path: Path) -> None:
    with kept(tmp_path):
        pass
    [segment] = segments(tmp_path)
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"log 1\n", b"log 2\n", 1))
    for repair in (False, True):
        with pytest.raises(DataFault, match="has format 2, and this version of reconcile-runtime reads 1"):
            DataFolder(tmp_path, repair=repair)
    assert segment.read_bytes() == data.replace(b"log 1\n", b"log 2\n", 1)


def test_segments_of_another_folder_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with kept(tmp_path / name, StillClock()) as api:
            api.clock.uuid()
    with DataFolder(tmp_path / "c"):  # an id of its own
        pass
    [segment] = segments(tmp_path / "a")
    (tmp_path / "c" / segment.name).write_bytes(segment.read_bytes())
    with pytest.raises(DataFault, match="another data folder"):
        DataFolder(tmp_path / "c")


def test_fresh_forgets_everything_and_leaves_other_files(tmp_path: Path) -> None:
    with kept(tmp_path) as api:
        api.ok("POST", CONFIG_MAPS, config_map())
        version = api.server.version
    (tmp_path / "notes.txt").write_text("mine")
    with DataFolder(tmp_path, fresh=True) as folder:
        api = Api(clock=StillClock(), data=folder)
        assert api.gone(f"{CONFIG_MAPS}/a")
        assert api.server.version <= version
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_crash_before_the_first_segment_is_a_fresh_start(tmp_path: Path) -> None:
    with DataFolder(tmp_path):
        pass
    (tmp_path / "segment-00000001.log.tmp").write_bytes(b"half")
    with kept(tmp_path) as api:
        assert api.ok("GET", CONFIG_MAPS)["items"] == []
    assert not (tmp_path / "segment-00000001.log.tmp").exists()


def test_a_watch_in_process_sees_what_is_kept(tmp_path: Path) -> None:
    with kept(tmp_path) as api:
        watch = api.watch(CONFIG_MAPS)
        api.ok("POST", CONFIG_MAPS, config_map())
        assert isinstance(watch, WatchStream)
        assert [kind for kind, _ in events(watch)] == ["ADDED"]


def test_each_write_is_one_record(tmp_path: Path) -> None:
    with kept(tmp_path) as api:
        before = len(places(tmp_path))
        api.ok("POST", CONFIG_MAPS, config_map())
        api.merge(f"{CONFIG_MAPS}/a", {"data": {"a": "b"}})
        api.ok("DELETE", f"{CONFIG_MAPS}/a")
        assert len(places(tmp_path)) == before + 3
