"""The page about finding what is wrong has every check, and what the command prints."""

import re
from pathlib import Path

from reconcile.doctor.checks import CHECKS
from tests.doctor.clinic import clinic
from tests.doctor.test_planted_faults import a_missing_right
from tests.helpers.scenarios import simulated

PAGE = (Path(__file__).parents[2] / "docs/how-to/find-what-is-wrong.md").read_text()


def test_the_page_has_a_row_for_each_check_in_order() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == list(CHECKS)


@simulated
async def test_the_output_on_the_page_is_what_the_command_prints() -> None:
    (block,) = re.findall(r"```console\n\$ reconcile doctor [^\n]*\n(.*?)```", PAGE, re.DOTALL)
    async with clinic() as ward:
        await a_missing_right(ward)
        report = await ward.report(asks=False)
    printed = [*(finding.line() for finding in report.findings), report.summary()]
    shown = [line for line in block.splitlines() if line != "…"]
    assert shown == [line for line in printed if line in shown]
    assert len(shown) == len(printed) - 1
