"""Operators of docs/examples write in proportion to their objects; `make bench` counts it for 2,000."""

import pytest

from tests.bench.operators import Writes, cron_job_writes, tenant_writes

CHILDREN = 6


def test_cron_jobs_send_a_status_each_then_nothing_and_two_writes_when_they_are_due() -> None:
    assert cron_job_writes(100) == Writes(first=100, restart=0, change=200)


@pytest.mark.timeout(120)
def test_tenants_send_their_children_and_a_status_each_then_nothing_and_one_write_for_a_shared_edit() -> None:
    assert tenant_writes(200) == Writes(first=200 * (CHILDREN + 1), restart=0, change=200)
