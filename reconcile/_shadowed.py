"""Whether the floors below are those that came with this package: an operator may have a namesake."""

from importlib.util import find_spec
from pathlib import Path

FLOORS_BELOW = ("workqueue", "informers")


def require_own_floors() -> None:
    """Raise ImportError where another package stands in the place of `workqueue` or `informers`."""
    home = Path(__file__).resolve().parent.parent
    for name in FLOORS_BELOW:
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if found != home / name / "__init__.py":
            raise ImportError(
                f"reconcile-runtime has a package {name!r} of its own, and "
                f"{found or 'nothing'} is found in its place: rename yours, or install reconcile-runtime anew"
            )
