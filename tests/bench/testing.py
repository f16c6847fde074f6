"""What a unit test of an operator takes, of the processor: other programs shall not count."""

import gc
import time
from statistics import median

from reconcile.testing import FakeClient, run_once, simulate
from tests.testing.site_operator import site, sites

Figures = dict[str, float]

TESTS = 200


async def _test() -> float:
    began = time.process_time()
    client = FakeClient(site())
    done = await run_once(sites(), site(), client)
    assert done.writes == ["apply configmaps default/web", "patch sites/status default/web"]
    return time.process_time() - began


def figures() -> Figures:
    simulate(_test)  # schemas are compiled once
    gc.collect()
    return {"testing.ms_per_unit_test": median(simulate(_test) for _ in range(TESTS)) * 1000}
