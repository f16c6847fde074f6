"""What a FakeService promises about its resources, and what it does not."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from reconcile.testing import (
    AnswerLost,
    Crash,
    CrashAfter,
    Drop,
    FailOperation,
    FakeService,
    Fault,
    LoseReply,
    Operations,
    PartOfBatch,
    RateLimit,
    Refuse,
    ServiceAnswer,
    ServiceCall,
    ServiceCollection,
    ServiceRefusal,
    ServiceUnreachable,
    StaleRead,
    When,
    simulate,
)
from reconcile.testing.recorded_requests import RecordedRequest


@frozen
class Zone:
    name: str
    text: str = ""
    id: str = ""
    state: str = ""


def collection(**laws: Any) -> ServiceCollection[Zone]:
    return ServiceCollection(name="zones", kind=Zone, **laws)


def dns(**laws: Any) -> FakeService:
    return FakeService("dns", [collection(**laws)])


def played(test: Callable[[], Awaitable[None]]) -> None:
    simulate(test, limit_seconds=200_000)


def names(answer: ServiceAnswer) -> list[str]:
    return [one["name"] for one in answer.body["items"]]


# --- reads and writes -----------------------------------------------------------------------------

WRITES = st.lists(
    st.tuples(st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]), st.integers(1, 5), st.sampled_from("abc")),
    max_size=12,
)


@given(writes=WRITES)
def test_without_lateness_a_service_answers_as_a_dictionary_does(
    writes: list[tuple[str, int, str]],
) -> None:
    service, model = dns(), {}

    async def main() -> None:
        for method, number, name in writes:
            path = f"/zones/zones-{number}"
            if method == "POST":
                made = await service.call("POST", "/zones", {"name": name})
                assert made.status == 201
                model[made.body["id"]] = name
                continue
            body = None if method == "DELETE" else {"name": name}
            answer = await service.call(method, path, body)
            assert answer.status == (404 if f"zones-{number}" not in model else 204 if not body else 200)
            if answer.ok and body:
                model[f"zones-{number}"] = name
            elif answer.ok:
                del model[f"zones-{number}"]
            assert (await service.call("GET", path)).ok == (f"zones-{number}" in model)
        assert names(await service.call("GET", "/zones")) == list(model.values())

    played(main)


@given(count=st.integers(0, 9), page=st.integers(1, 4))
def test_the_pages_of_a_list_are_the_list_whatever_is_made_and_deleted_meanwhile(
    count: int, page: int
) -> None:
    service = dns(page=page)

    async def main() -> None:
        for number in range(count):
            await service.call("POST", "/zones", {"name": f"zone-{number}"})
        seen, query = [], ""
        while True:
            answer = await service.call("GET", f"/zones{query}")
            seen += names(answer)
            if "next_page_token" not in answer.body:
                break
            query = f"?page_token={answer.body['next_page_token']}"
            await service.call("DELETE", "/zones/zones-1")
        assert seen == [f"zone-{number}" for number in range(count)]

    played(main)


WAITS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 30)), min_size=1, max_size=6)


@given(writes=WAITS, seed=st.integers(0, 99), stale=st.integers(0, 4))
def test_a_late_read_shows_an_earlier_state_and_never_an_older_one_than_is_allowed(
    writes: list[tuple[str, float]], seed: int, stale: int
) -> None:
    most = 20.0
    service = FakeService("dns", [collection(visible_after=(1.0, most), strong_gets=True)], seed=seed)

    async def main() -> None:
        await service.call("POST", "/zones", {"name": "new"})
        states = [(service.now(), "new")]
        for text, wait in writes:
            await anyio.sleep(wait)
            await service.call("PATCH", "/zones/zones-1", {"name": text})
            states.append((service.now(), text))
            if stale:
                service.fail("get", "/zones", StaleRead(stale))
            listed = names(await service.call("GET", "/zones"))
            oldest = max((n for n, (at, _) in enumerate(states) if at < service.now() - most), default=None)
            allowed = [[name] for _, name in states[oldest or 0 :]] + ([[]] if oldest is None else [])
            assert listed in allowed
            assert (await service.call("GET", "/zones/zones-1")).body["name"] == text
        await anyio.sleep(most + 1)
        service.fail("get", "/zones", StaleRead(9))
        assert names(await service.call("GET", "/zones")) == [states[-1][1]]

    played(main)


def test_a_read_right_after_a_write_may_not_see_it() -> None:
    service = dns(visible_after=(5.0, 5.0))

    async def main() -> None:
        made = await service.call("POST", "/zones", {"name": "a"})
        assert (await service.call("GET", "/zones")).body == {"items": []}
        assert (await service.call("GET", f"/zones/{made.body['id']}")).status == 404
        assert service.state()["zones pending"] == ["zones-1 created, not seen yet"]
        await anyio.sleep(5)
        assert names(await service.call("GET", "/zones?name=a")) == ["a"]
        assert "zones pending" not in service.state()

    played(main)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/zones", {"text": "x"}, 422, "invalid"),
        ("POST", "/zones", {"name": 7}, 422, "invalid"),
        ("POST", "/zones", {"name": "b", "nome": "b"}, 422, "invalid"),
        ("POST", "/zones", [], 400, "malformed"),
        ("GET", "/zones?limit=ten", None, 400, "malformed"),
        ("GET", "/zones?page_token=!", None, 400, "malformed"),
        ("GET", "/other", None, 404, "not_found"),
        ("PUT", "/zones", {}, 405, "method_not_allowed"),
        ("PATCH", "/zones/zones-1", {"text": "other"}, 422, "immutable"),
        ("POST", "/zones", {"name": "b"}, 403, "quota_exceeded"),
        ("POST", "/zones:batch", {"items": 3}, 400, "malformed"),
        ("POST", "/zones:batch", {"items": [{}] * 1001}, 413, "too_large"),
    ],
)
def test_what_a_service_refuses_changes_nothing(
    method: str, path: str, body: Any, status: int, code: str
) -> None:
    service = dns(fixed=("text",), most=2 if status == 422 else 1)

    async def main() -> None:
        await service.call("POST", "/zones", {"name": "a"})
        before = service.state()
        answer = await service.call(method, path, body)
        assert (answer.status, answer.body["error"]["code"]) == (status, code)
        assert service.state() == before

    played(main)


def test_a_write_with_an_old_version_is_refused() -> None:
    service = dns()

    async def main() -> None:
        made = await service.call("POST", "/zones", {"name": "a"})
        old = {"If-Match": made.headers["etag"]}
        assert (await service.call("PATCH", "/zones/zones-1", {"text": "1"}, headers=old)).status == 200
        for method, body in (("PATCH", {"text": "2"}), ("PUT", {"name": "a"}), ("DELETE", None)):
            assert (await service.call(method, "/zones/zones-1", body, headers=old)).status == 412
        assert service.resources("zones").all() == [Zone("a", "1", "zones-1")]

    played(main)


def test_a_name_that_a_client_chooses_is_taken_once() -> None:
    service = dns(client_names=True, id="name")

    async def main() -> None:
        assert (await service.call("POST", "/zones", {"name": "a"})).status == 201
        assert (await service.call("POST", "/zones", {"name": "a"})).status == 409
        assert (await service.call("PUT", "/zones/b", {"name": "b"})).status == 201
        assert (await service.call("PUT", "/zones/b", {"name": "b", "text": "x"})).status == 200
        assert (await service.call("POST", "/zones", {"name": ""})).status == 422

    played(main)


def test_a_replacement_of_what_is_gone_does_not_bring_it_back() -> None:
    service = dns(client_names=True, id="name")

    async def main() -> None:
        made = await service.call("PUT", "/zones/a", {"name": "a"})
        seen = {"If-Match": made.headers["etag"]}
        assert (await service.call("DELETE", "/zones/a")).status == 204
        assert (await service.call("PUT", "/zones/a", {"name": "a"}, headers=seen)).status == 404
        assert service.resources("zones").all() == []

    played(main)


# --- keys, limits ---------------------------------------------------------------------------------


def test_a_key_makes_a_request_count_once_until_it_is_forgotten() -> None:
    service = FakeService("dns", [collection()], keys_for=60)
    key = {"Idempotency-Key": "k"}

    async def main() -> None:
        first = await service.call("POST", "/zones", {"name": "a"}, headers=key)
        again = await service.call("POST", "/zones", {"name": "a"}, headers=key)
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["idempotent-replayed"] == "true"
        other = await service.call("POST", "/zones", {"name": "b"}, headers=key)
        assert (other.status, other.body["error"]["code"]) == (422, "key_reused")
        await anyio.sleep(60)
        assert (await service.call("POST", "/zones", {"name": "a"}, headers=key)).body["id"] == "zones-2"

    played(main)


@pytest.mark.parametrize("lost", [LoseReply(), Refuse(504, applied=True), CrashAfter()])
def test_a_request_with_a_key_is_carried_out_once_however_often_its_answer_is_lost(lost: Any) -> None:
    service = dns()
    service.fail("create", "/zones", lost)

    async def main() -> None:
        with suppress(AnswerLost, Crash):
            answer = await service.call("POST", "/zones", {"name": "a"}, headers={"Idempotency-Key": "k"})
            assert answer.status == 504
        service.line.restart()
        answer = await service.call("POST", "/zones", {"name": "a"}, headers={"Idempotency-Key": "k"})
        assert answer.status == 201
        assert len(service.resources("zones").all()) == 1

    played(main)


def test_a_service_without_keys_carries_each_request_out() -> None:
    service = FakeService("dns", [collection()], keys_for=0)

    async def main() -> None:
        for _ in range(2):
            await service.call("POST", "/zones", {"name": "a"}, headers={"Idempotency-Key": "k"})
        assert len(service.resources("zones").all()) == 2

    played(main)


def test_too_many_requests_are_refused_for_as_long_as_the_answer_says() -> None:
    service = FakeService("dns", [collection()], rate=RateLimit(2, per=10.0))

    async def main() -> None:
        for status in (200, 200, 429):
            answer = await service.call("GET", "/zones")
            assert answer.status == status
        assert answer.headers["retry-after"] == "10"
        await anyio.sleep(10)
        assert (await service.call("GET", "/zones")).ok

    played(main)


# --- batches and operations -----------------------------------------------------------------------


def test_a_batch_carries_out_what_it_can_and_answers_for_each_item() -> None:
    service = dns()
    items = [{"body": {"name": "a"}}, {"method": "DELETE", "id": "zones-9"}, {"method": "GET"}]

    async def main() -> None:
        answer = await service.call("POST", "/zones:batch", {"items": items})
        assert answer.status == 207
        assert [one["status"] for one in answer.body["results"]] == [201, 404, 400]
        service.fail("create", "/zones:batch", PartOfBatch(1))
        answer = await service.call(
            "POST", "/zones:batch", {"items": [{"body": {"name": "b"}}, {"body": {"name": "c"}}]}
        )
        assert [one["status"] for one in answer.body["results"]] == [201, 503]
        assert [one.name for one in service.resources("zones").all()] == ["a", "b"]
        whole = await service.call("POST", "/zones:batch", {"items": []})
        assert whole.status == 200

    played(main)


def test_an_operation_takes_its_time_and_keeps_others_out() -> None:
    service = dns(operations=Operations(takes=(10.0, 10.0), state="state"))

    async def main() -> None:
        accepted = await service.call("POST", "/zones", {"name": "a"})
        assert (accepted.status, accepted.headers["location"]) == (202, "/operations/op-zones-1")
        assert (await service.call("GET", "/zones/zones-1")).body["state"] == "creating"
        assert (await service.call("DELETE", "/zones/zones-1")).status == 409
        assert (await service.call("GET", accepted.headers["location"])).body["done"] is False
        await anyio.sleep(10)
        assert (await service.call("GET", accepted.headers["location"])).body["done"] is True
        assert (await service.call("GET", "/zones/zones-1")).body["state"] == "ready"
        assert (await service.call("DELETE", "/zones/zones-1")).status == 202
        assert (await service.call("GET", "/zones/zones-1")).body["state"] == "deleting"
        await anyio.sleep(10)
        assert (await service.call("GET", "/zones/zones-1")).status == 404
        assert (await service.call("GET", "/operations/op-9")).status == 404

    played(main)


def test_an_operation_that_fails_says_so_and_leaves_what_it_began() -> None:
    service = dns(operations=Operations(takes=(1.0, 5.0), state="state"))
    service.fail("create", "/zones", FailOperation())

    async def main() -> None:
        accepted = await service.call("POST", "/zones", {"name": "a"})
        await anyio.sleep(5)
        ended = await service.call("GET", accepted.headers["location"])
        assert ended.body["error"] == {"code": "failed", "message": "the create failed"}
        assert (await service.call("GET", "/zones/zones-1")).body["state"] == "failed"
        assert (await service.call("PATCH", "/zones/zones-1", {"text": "x"})).status == 202
        await anyio.sleep(5)
        assert (await service.call("GET", "/zones/zones-1")).body["state"] == "ready"

    played(main)


# --- a service of another shape -------------------------------------------------------------------


def change(call: ServiceCall) -> Any:
    zones = call.service.resources("zones")
    if call.params["zone"] == "com":
        raise ServiceRefusal(451, "reserved", "not this one")
    return {"id": zones.create({"name": call.params["zone"], "text": call.body["text"]}).id}


def test_routes_of_an_author_work_on_the_same_resources_under_the_same_laws() -> None:
    class Dns(FakeService):
        def error_body(self, status: int, code: str, message: str) -> Any:
            return {"fault": code}

    service = Dns("dns", [collection(most=1)], routes={"POST /zone/{zone}/change": change})

    async def main() -> None:
        made = await service.call("POST", "/zone/a%2Fb/change", {"text": "x"})
        assert (made.status, made.body) == (200, {"id": "zones-1"})
        assert service.resources("zones").all() == [Zone("a/b", "x", "zones-1")]
        assert (await service.call("POST", "/zone/com/change", {"text": ""})).body == {"fault": "reserved"}
        assert (await service.call("POST", "/zone/c/change", {"text": ""})).status == 403
        service.fail("*", "*", Refuse(503))
        assert (await service.call("GET", "/zones")).body == {"fault": "refused"}

    played(main)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: FakeService("Dns"), "expected a name of small letters"),
        (lambda: FakeService("dns", [collection(), collection()]), "two collections of dns have one name"),
        (lambda: FakeService("dns", routes={"/zones": change}), "expected a route such as"),
        (lambda: collection(visible_after=(3.0, 1.0)), "at least and at most"),
        (lambda: ServiceCollection(name="a/b", kind=Zone), "name"),
        (lambda: RateLimit(0), "requests"),
        (lambda: PartOfBatch(-1), "items"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(make: Callable[[], object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        make()


def test_names_of_fields_are_not_taken_apart() -> None:
    with pytest.raises(TypeError, match=r"write \('name',\)"):
        collection(fixed="name")


def test_an_unknown_collection_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(LookupError, match="dns has no records, only zones"):
        dns().resources("records")


def test_a_request_that_did_not_arrive_and_one_whose_answer_is_lost_are_told_apart() -> None:
    service = dns()
    service.add(Fault(When(path="//dns/*"), Drop()), Fault(When(path="//dns/*", nth=2), LoseReply()))

    async def main() -> None:
        with pytest.raises(ServiceUnreachable, match=r"POST //dns/zones: .*\(a planned fault\)"):
            await service.call("POST", "/zones", {"name": "a"})
        assert service.resources("zones").all() == []
        with pytest.raises(AnswerLost):
            await service.call("POST", "/zones", {"name": "a"})
        assert len(service.resources("zones").all()) == 1
        assert [one.server_status for one in service.line.requests] == [None, 201]

    played(main)


def test_the_state_hides_secrets_and_keeps_equal_ones_equal() -> None:
    service = dns(secret=("text",))

    async def main() -> None:
        for text in ("hunter2", "hunter2", "hunter3"):
            await service.call("POST", "/zones", {"name": "a", "text": text})
        shown = [zone["text"] for zone in service.state()["zones"]]
        assert "hunter" not in str(shown)
        assert len(set(shown)) == 2

    played(main)


def test_a_route_for_get_answers_head_too() -> None:
    async def main() -> None:
        assert (await dns().call("HEAD", "/zones")).status == 200

    played(main)


def test_faults_are_planned_until_they_are_mended() -> None:
    service = dns()
    service.fail("*", "*", Refuse(503), times=None)

    async def main() -> None:
        assert [(await service.call("GET", "/zones")).status for _ in range(3)] == [503] * 3
        service.mend()
        assert (await service.call("GET", "/zones")).status == 200

    played(main)


def test_a_recorded_request_of_a_service_is_told_by_its_path() -> None:
    request = RecordedRequest("POST", "//dns/zones", content=b"")
    assert (request.outside, request.verb, request.summary, request.body) == (
        True,
        "create",
        "POST //dns/zones",
        None,
    )
    search = RecordedRequest("POST", "//dns/search", service_verb="get")
    assert not search.mutating
