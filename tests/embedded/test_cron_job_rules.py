"""CronJobs: schedules, time zones, and the rules of their template."""

from typing import Any

import pytest

from reconcile.embedded.kinds import cron_schedules
from reconcile.embedded.kinds.cron_schedules import schedule_fault, zone_faults
from tests.embedded.api_client import Api
from tests.embedded.workload_bodies import ABSENT, body, causes_of_change, causes_of_create, path_of

TEMPLATE = "spec.jobTemplate.spec"


@pytest.mark.parametrize(
    "schedule",
    [
        *(
            "* * * * *",
            "*/5 0-23 1,15 jan-DEC sun",
            "? ? ? ? ?",
            "0 0 1 1 0",
            "59 23 31 12 6",
            "5/10 * * * *",
        ),
        *("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every 1h30m"),
        *(" 0 0 * * * ", "0,,5 * * * *", "+5 * * * *", "*-7 * * * *"),
    ],
)
def test_a_schedule_may_be(schedule: str) -> None:
    assert schedule_fault(schedule) == ""


@pytest.mark.parametrize(
    "schedule",
    [
        *("x", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7"),
        *("5-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "*/0 * * * *", "-1 * * * *", "a * * * *"),
        *("* * * feb-x *", "1.5 * * * *", "@reboot", "@every soon", "@Daily"),
    ],
)
def test_a_schedule_may_not_be(schedule: str) -> None:
    assert schedule_fault(schedule)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Etc/GMT+1", "America/Argentina/Ushuaia"])
def test_a_time_zone_may_be(zone: str) -> None:
    assert zone_faults(zone) == []


@pytest.mark.parametrize(
    ("zone", "count"),
    [
        ("", 1),
        ("Europe/Atlantis", 1),
        ("Local", 1),
        ("local", 2),
        ("../etc", 1),
        ("-Europe/Berlin", 1),
        ("Europe//Berlin", 1),
        ("Middle-earth/Shire", 1),
        ("Antarctica-forever", 1),
    ],
)
def test_a_time_zone_may_not_be(zone: str, count: int) -> None:
    assert len(zone_faults(zone)) == count


def test_a_machine_without_time_zones_takes_every_possible_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cron_schedules, "_zones", frozenset[str])
    assert zone_faults("Europe/Atlantis") == []
    assert zone_faults("../etc") == ["unknown time zone ../etc"]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"spec.schedule": ABSENT}, ["Required spec.schedule"]),
        ({"spec.schedule": "x"}, ["Invalid spec.schedule"]),
        ({"spec.schedule": "TZ=UTC 0 0 * * *"}, ["Invalid spec.schedule"]),
        ({"spec.schedule": "CRON_TZ=No/Where 0 0 * * *"}, ["Invalid spec.schedule", "Invalid spec.schedule"]),
        ({"spec.timeZone": "Europe/Berlin"}, []),
        ({"spec.timeZone": ""}, ["Invalid spec.timeZone"]),
        ({"spec.concurrencyPolicy": "Replace"}, []),
        ({"spec.concurrencyPolicy": ""}, []),
        ({"spec.concurrencyPolicy": "Odd"}, ["NotSupported spec.concurrencyPolicy"]),
        ({"spec.startingDeadlineSeconds": -1}, ["Invalid spec.startingDeadlineSeconds"]),
        ({"spec.successfulJobsHistoryLimit": -1}, ["Invalid spec.successfulJobsHistoryLimit"]),
        ({"spec.failedJobsHistoryLimit": -1}, ["Invalid spec.failedJobsHistoryLimit"]),
        ({"metadata.name": "c" * 52}, []),
        ({"metadata.name": "c" * 53}, ["Invalid metadata.name"]),
        ({f"{TEMPLATE}.selector": {}}, [f"Invalid {TEMPLATE}.selector"]),
        ({f"{TEMPLATE}.manualSelector": True}, [f"NotSupported {TEMPLATE}.manualSelector"]),
        ({f"{TEMPLATE}.manualSelector": False}, []),
        ({f"{TEMPLATE}.backoffLimit": -1}, [f"Invalid {TEMPLATE}.backoffLimit"]),
        ({f"{TEMPLATE}.backoffLimitPerIndex": 1}, [f"Invalid {TEMPLATE}.backoffLimitPerIndex"]),
        (
            {f"{TEMPLATE}.podFailurePolicy": {"rules": [{"action": "Ignore"}]}},
            [f"Invalid {TEMPLATE}.podFailurePolicy.rules[0]"],
        ),
        (
            {f"{TEMPLATE}.template.spec.restartPolicy": ABSENT},
            [f"Required {TEMPLATE}.template.spec.restartPolicy"],
        ),
        (
            {"spec": ABSENT},
            [
                f"Required {TEMPLATE}.template.spec.containers",
                f"Required {TEMPLATE}.template.spec.restartPolicy",
                "Required spec.schedule",
            ],
        ),
    ],
)
def test_a_cron_job_is_checked_field_by_field(api: Api, changes: dict[str, Any], wanted: list[str]) -> None:
    assert causes_of_create(api, "cronjobs", changes) == wanted


def test_a_template_gets_defaults_of_pods_and_of_conditions_but_not_of_jobs(api: Api) -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "A"}]}]}
    changes = {f"{TEMPLATE}.podFailurePolicy": policy}
    spec = api.ok("POST", path_of("cronjobs"), body("cronjobs", changes))["spec"]["jobTemplate"]["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "A", "status": "True"}]
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "backoffLimit" not in spec


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"spec.schedule": "0 * * * *"}, []),
        ({"spec.schedule": "x"}, ["Invalid spec.schedule"]),
        ({"spec.timeZone": "No/Where"}, ["Invalid spec.timeZone"]),
        ({f"{TEMPLATE}.completions": 4}, []),
    ],
)
def test_a_changed_cron_job_is_checked_once(api: Api, change: dict[str, Any], wanted: list[str]) -> None:
    assert causes_of_change(api, "cronjobs", {}, change) == wanted


@pytest.mark.parametrize(("name", "warned"), [("a", False), ("a.b", True)])
def test_a_name_that_no_pod_can_bear_is_warned_of(api: Api, name: str, warned: bool) -> None:
    answer = api.send("POST", path_of("cronjobs"), body("cronjobs", name=name))
    assert (answer.status, "warning" in answer.headers) == (201, warned)
