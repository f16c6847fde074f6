"""The options of a controller for storms."""

from attrs import field, frozen, validators

LONGEST = 300.0


@frozen(kw_only=True)
class Storms:
    """The treatment of keys that keep waking themselves.

    With `detect`, their writes are metered, and a key in a loop is reported and slowed down, in the end to
    one run every `longest` seconds (at most 300). With `condition`, the object also gets a condition
    `ReconcileStorm`, by server-side apply under the field manager `<field manager>-storms`: written once when
    a storm begins and once when it ends. Nothing else is written to the object.
    """

    detect: bool = True
    condition: bool = False
    longest: float = field(default=LONGEST, validator=[validators.gt(0), validators.le(LONGEST)])
