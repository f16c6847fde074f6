"""How many files and connections the process may have open."""

from informers import get_logger

MOST = 65_536
"""More is of no use, and child processes that close all they could have inherited take long."""

_log = get_logger("reconcile.serving")


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, MOST at most, as Go does at the start; what it is then."""
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
    except (OSError, ValueError) as error:  # macOS has a lower limit of the kernel's own
        _log.info("the limit of open files stays", soft=soft, hard=hard, error=str(error))
        return soft
    _log.info("raised the limit of open files", soft=limit, before=soft)
    return limit
