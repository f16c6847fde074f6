"""What a controller's author may choose about storms."""

from attrs import field, frozen, validators

LONGEST = 300.0


@frozen(kw_only=True)
class Storms:
    """What is done about keys that keep waking themselves.

    With `detect`, their writes are metered, and a key in a loop is named and slowed down: to one run each
    `longest` seconds (at most 300) in the end. With `condition`, a condition `ReconcileStorm` says so on the
    object too, by server-side apply under the field manager `<controller>-storms`, once when a storm begins
    and once when it ends; nothing is written to the object otherwise.
    """

    detect: bool = True
    condition: bool = False
    longest: float = field(default=LONGEST, validator=[validators.gt(0), validators.le(LONGEST)])
