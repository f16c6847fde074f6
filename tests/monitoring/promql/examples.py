"""What the documentation of Prometheus says, as cases whose answers can be worked out by hand."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from tests.monitoring.promql.cases import Answer, Case


@frozen
class Example:
    """What is said, series with a value each minute, and what expressions must be at a second."""

    says: str
    series: Mapping[str, str]
    answers: Mapping[tuple[str, int], Answer]
    rules: Sequence[Mapping[str, Any]] = field(factory=tuple)

    @property
    def case(self) -> Case:
        values = {name: value.split() for name, value in self.series.items()}
        return Case(60, 60, values, self.rules, [*self.answers])


_BUCKETS: Final = {
    'h_bucket{le="1"}': "0 10",
    'h_bucket{le="2"}': "0 30",
    'h_bucket{le="+Inf"}': "0 40",
}
_DEEP: Final = {"alert": "Deep", "expr": "depth > 0", "for": "2m"}
_PENDING: Final = {'ALERTS{alertname="Deep", alertstate="pending"}': 1.0}
_FIRING: Final = {'ALERTS{alertname="Deep", alertstate="firing"}': 1.0}

EXAMPLES: Final = (
    Example(
        "an increase is extended to the edges of the window, so that whole numbers may rise by a fraction",
        {"c": "100 101 102 103 104 105"},
        # Four samples within 3 m 20 s, which span 3 m; 20 s are missing at the start.
        {("increase(c[200s])", 300): {"{}": 3 * 200 / 180}, ("rate(c[200s])", 300): {"{}": 3 / 180}},
    ),
    Example(
        "a counter that falls has begun anew at 0, and has lost nothing before",
        {"c": "10 14 3 5 5"},
        {("increase(c[4m])", 240): {"{}": 9.0}, ("rate(c[4m])", 240): {"{}": 9 / 240}},
    ),
    Example(
        "a counter is not taken back to before it was 0",
        {"c": "_ _ 2 8 14"},
        # It rises by 12 in 120 s, so it was 0 not 60 s before its first sample, but 20 s.
        {("increase(c[4m])", 240): {"{}": 14.0}},
    ),
    Example(
        "if the samples begin or end far from the edges, half a distance is added there",
        {"c": "_ _ _ 500 501 502 _ _ _"},
        {("increase(c[8m])", 480): {"{}": 2 * 180 / 120}},
    ),
    Example(
        "one sample has no rate, and none has none either",
        {"c": "_ _ _ 5", "d": "1 stale _ _"},
        {("rate(c[2m])", 180): {}, ("rate(d[2m])", 180): {}, ("increase(nothing[5m])", 180): {}},
    ),
    Example(
        "the samples at both edges of a window belong to it",
        {"c": "1 2 3 4"},
        {("count_over_time(c[2m])", 180): {"{}": 3.0}, ("sum_over_time(c[2m])", 180): {"{}": 9.0}},
    ),
    Example(
        "observations are spread evenly within the bucket of a quantile",
        _BUCKETS,
        {
            # Of 40 observations, the 20th is the 10th of 20 between 1 and 2.
            ("histogram_quantile(0.5, h_bucket)", 60): {"{}": 1.5},
            # The first bucket begins at 0.
            ("histogram_quantile(0.125, h_bucket)", 60): {"{}": 0.5},
        },
    ),
    Example(
        "a quantile in the bucket without an end is the end of the one before",
        _BUCKETS,
        {("histogram_quantile(0.9, h_bucket)", 60): {"{}": 2.0}},
    ),
    Example(
        "a quantile needs observations, a bucket without an end, and a share from 0 to 1",
        {**_BUCKETS, 'open_bucket{le="1"}': "1 1", 'open_bucket{le="2"}': "1 1"},
        {
            ("histogram_quantile(0.5, h_bucket)", 0): {"{}": float("nan")},
            ("histogram_quantile(0.5, open_bucket)", 60): {"{}": float("nan")},
            ("histogram_quantile(1.01, h_bucket)", 60): {"{}": float("inf")},
        },
    ),
    Example(
        "the last sample stands for a series for 5 minutes, unless a mark says that it has ended",
        {"quiet": "7 _ _ _ _ _ _ _", "ended": "7 stale _ _ _ _ _ _"},
        {
            ("quiet", 300): {"quiet{}": 7.0},
            ("quiet", 301): {},
            ("ended", 59): {"ended{}": 7.0},
            ("ended", 60): {},
        },
    ),
    Example(
        "what is absent has the labels that the selector asks for by one value",
        {"up": "1 1"},
        {
            ('absent(down{job="a",pod=~"b.*"})', 60): {'{job="a"}': 1.0},
            ("absent(up)", 60): {},
            ('absent(down{job="a",job="a",pod="b"})', 60): {'{pod="b"}': 1.0},
        },
    ),
    Example(
        "a pattern must fit the whole value of a label, and a label that is not there is empty",
        {'d{a="x"}': "1 1", 'd{a="xyx"}': "2 2", "d": "3 3"},
        {
            ('d{a=~"x"}', 60): {'d{a="x"}': 1.0},
            ('d{a!~"x"}', 60): {'d{a="xyx"}': 2.0, "d{}": 3.0},
            ('d{a=""}', 60): {"d{}": 3.0},
            ('d{a=~"x.*|"}', 60): {'d{a="x"}': 1.0, 'd{a="xyx"}': 2.0, "d{}": 3.0},
        },
    ),
    Example(
        "an offset asks for what was so long ago",
        {"c": "1 2 3 4 5 6 7"},
        {("c offset 2m", 360): {"c{}": 5.0}, ("sum_over_time(c[1m] offset 2m)", 360): {"{}": 9.0}},
    ),
    Example(
        "a label is replaced where the pattern fits the whole value of another, and left alone elsewhere",
        {'d{a="x/y"}': "1 1", 'd{a="z"}': "2 2"},
        {
            ('label_replace(d, "b", "$1", "a", "(.+)/.+")', 60): {'d{a="x/y", b="x"}': 1.0, 'd{a="z"}': 2.0},
            ('label_replace(d, "b", "$1", "a", "(x)")', 60): {'d{a="x/y"}': 1.0, 'd{a="z"}': 2.0},
            ('label_replace(d, "a", "", "a", ".*")', 60): None,
        },
    ),
    Example(
        "a comparison chooses samples, and with bool it says 0 or 1 of each",
        {'d{a="x"}': "1 1", 'd{a="y"}': "3 3"},
        {
            ("d > 2", 60): {'d{a="y"}': 3.0},
            ("d > bool 2", 60): {'{a="x"}': 0.0, '{a="y"}': 1.0},
            ("2 < d", 60): {'d{a="y"}': 3.0},
        },
    ),
    Example(
        "series match by all labels but those that are ignored, and two matches of one are refused",
        {'all{a="x"}': "8 8", 'part{a="x",le="1"}': "5 5", 'part{a="x",le="2"}': "7 7"},
        {
            ("all - part", 60): {},
            ('all - ignoring (le) part{le="1"}', 60): {'{a="x"}': 3.0},
            ("all - ignoring (le) part", 60): None,
            ("part - ignoring (le) all", 60): None,
            ("all and on (a) part", 60): {'all{a="x"}': 8.0},
            ("part unless on (a) all", 60): {},
        },
    ),
    Example(
        "`and` binds more tightly than `or`, and a comparison more tightly than both",
        {"a": "1 1", "b": "2 2", "c": "3 3"},
        {
            ("a or b and c > 5", 60): {"a{}": 1.0},
            ("a + b * c", 60): {"{}": 7.0},
            ("a - b - c", 60): {"{}": -4.0},
        },
    ),
    Example(
        "an alert is pending until it has held for its time, and a moment without it starts anew",
        {"depth": "0 1 1 1 0 1 1"},
        {
            ("ALERTS", 0): {},
            ("ALERTS", 60): _PENDING,
            ("ALERTS", 120): _PENDING,
            ("ALERTS", 180): _FIRING,
            ("ALERTS_FOR_STATE", 180): {'ALERTS_FOR_STATE{alertname="Deep"}': 60.0},
            ("ALERTS", 240): {},
            ("ALERTS", 300): _PENDING,
            ("ALERTS", 360): _PENDING,
        },
        [_DEEP],
    ),
    Example(
        "a rule sees what the rules before it have recorded at the same time",
        {"depth": "0 2 0"},
        {
            ("job:half", 60): {'job:half{slo="x"}': 1.0},
            ("job:quarter", 60): {"job:quarter{}": 0.5},
            ("job:big", 60): {"job:big{}": 2.0},
            ("job:big", 120): {},
        },
        [
            {"record": "job:half", "expr": "depth / 2", "labels": {"slo": "x"}},
            {"record": "job:quarter", "expr": "sum (job:half) / 2"},
            {"record": "job:big", "expr": "depth > 1"},
        ],
    ),
)
