"""The limit of open files and connections of the process."""

from informers import get_logger

MOST = 65_536
"""More would only slow down child processes that close every descriptor they might have inherited."""

_log = get_logger("reconcile.serving")


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, MOST at most, as Go does at the start; returns the new limit."""
    try:
        import resource
    except ImportError:  # not on this platform
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST
    limit = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if limit <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError) as error:  # the kernel of macOS has a lower limit of its own
        _log.info("could not raise the limit of open files", soft=soft, hard=hard, error=str(error))
        return soft
    _log.info("raised the limit of open files", soft=limit, before=soft)
    return limit
