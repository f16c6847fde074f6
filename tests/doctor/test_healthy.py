"""A healthy operator has no findings, and looking at it changes nothing."""

from tests.doctor.clinic import clinic
from tests.helpers.scenarios import simulated


@simulated
async def test_a_healthy_operator_has_no_findings() -> None:
    async with clinic() as ward:
        report = await ward.report()
        assert [finding.line() for finding in report.findings] == []
        assert report.summary() == "checked 11 things: nothing found"
        assert not any("secrets" in path for path in ward.paths)
