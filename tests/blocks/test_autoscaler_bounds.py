"""A page of a pod is another's text: however it is made, reading it holds the loop no longer than a blink."""

import pytest

from reconcile.blocks.autoscaler.metric_pages import MOST_BYTES, MOST_SERIES, MetricSeries
from reconcile.blocks.autoscaler.readings import Missing
from tests.helpers.processor_time import bounded

PAGES = [
    b"load 1\n",
    b"a\n",
    b"a",
    b"\n",
    b"a:",
    b"load{",
    b" ",
    b"#load {\n",
    b" load",
    b'load{a="1"} 1\n',
    b'{"load"} 1\n',
    b"loadx\n",
    b'other{a="b"} 1\n',
    b"load{" + b",".join(b'a%d="x"' % number for number in range(300)) + b"} 1\n",
]


@pytest.mark.rule("tenant-05")
@pytest.mark.parametrize("part", PAGES, ids=lambda part: part[:12].decode())
@pytest.mark.parametrize("name", ["load", "a", "l"])
def test_no_page_blocks_the_loop(part: bytes, name: str) -> None:
    page = part * (MOST_BYTES // len(part))
    with bounded(0.1):
        MetricSeries(name).value(page)


def test_series_are_summed_up_to_the_bound_and_beyond_it_the_value_is_missing() -> None:
    assert MetricSeries("load").value(b"load 1\n" * MOST_SERIES) == MOST_SERIES * 1000
    found = MetricSeries("load").value(b"load 1\n" * (MOST_SERIES + 1))
    assert isinstance(found, Missing)
    assert found.reason == "TooManySeries"


def test_a_value_at_the_end_of_a_large_page_is_found() -> None:
    page = b"".join(b'other_%d{load="1"} 2\n' % number for number in range(20_000))
    assert MetricSeries("load").value(page + b"vllm:load 3\n") == 3000
    assert MetricSeries("load").value(page + b'  load{x="y"}\t4 1700000000') == 4000
    assert MetricSeries("load").value(page + b'{"load",x="y"} 5\n') == 5000
