"""When a store compresses its bodies in the background: decided by its size and by how often it is read."""

from attrs import frozen

PERIOD = 60.0
"""Seconds over which reads are counted. Work that comes back each minute shows in each period."""
PERIODS = 3
"""Periods in a row that have to agree before anything changes. So the runs of a start, or one run of every
object in ten hours, neither begin nor end it, and no sequence of reads can change it more often than that."""
LARGE = 64 << 20
"""Bytes of stored bodies from which on compression may begin. It saves 40 MB or more then, almost as much as
an empty manager takes; below, that is not worth the work."""
SMALL = 4 << 20
"""Bytes below which it ends. Compression leaves a fifth to a third of `LARGE`, so a store stays well above
unless its objects are gone."""
SELDOM = 0.1
"""Reads per object in a period below which bodies are seldom read: at 5 us more for each, 100,000 objects
cost less than 50 ms of CPU a minute."""
OFTEN = 1.0
"""Reads per object in a period from which on bodies are often read. Ten times `SELDOM`, so that a rate that
wavers about either of them changes nothing."""


@frozen
class StorePeriod:
    """A period of a store in sync: its objects, the bytes of their stored bodies, and how many were read."""

    objects: int
    bytes: int
    reads: int


@frozen
class CompressionState:
    """Whether a store compresses, and how many periods in a row have said that this should change."""

    compressing: bool = False
    agreeing: int = 0


def is_worth_counting(state: CompressionState, stored: int) -> bool:
    """Whether a store with so many bytes of bodies has something to decide, so that its reads are counted."""
    return state.compressing or stored >= LARGE


def next_state(state: CompressionState, period: StorePeriod) -> CompressionState:
    """The state after a further period."""
    if not _speaks_against(state.compressing, period):
        return CompressionState(state.compressing)
    agreeing = state.agreeing + 1
    if agreeing < PERIODS:
        return CompressionState(state.compressing, agreeing)
    return CompressionState(not state.compressing)


def _speaks_against(compressing: bool, period: StorePeriod) -> bool:
    """Whether a period says that what the store does should change."""
    if compressing:
        return period.bytes < SMALL or period.reads >= OFTEN * period.objects
    return period.bytes >= LARGE and period.reads < SELDOM * period.objects
