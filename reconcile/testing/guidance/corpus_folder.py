"""The plans of a corpus in a folder, a file each, from one fuzz to the next."""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from pathlib import Path

from attrs import define, field

from reconcile.testing.faults import FaultPlan
from reconcile.testing.guidance.corpus import size_of
from reconcile.testing.whole_files import write_whole

MOST_FILES = 1_000
MOST_BYTES = 256 * 1024
MOST_STEPS = 64
"""The most acts and faults of one plan."""
_BROKEN = "broken-"


@define(eq=False)
class CorpusFolder:
    """A folder of plans, made if it does not exist. Only files that were read from it are ever removed."""

    path: Path
    _read: dict[str, Path] = field(factory=dict)
    """The files that were read, by the JSON of their plans."""

    def plans(self) -> Sequence[FaultPlan]:
        """Its plans, those that broke the scenario first.

        Raises ValueError for a file that is not a plan, or too large, and for a folder with too many files.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        files = sorted(
            self.path.glob("*.json"), key=lambda file: (not file.name.startswith(_BROKEN), file.name)
        )
        if len(files) > MOST_FILES:
            raise ValueError(
                f"corpus {self.path} has {len(files)} plans, more than {MOST_FILES}: delete some"
            )
        plans = {file: plan for file in files if (plan := _plan_in(file)) is not None}
        self._read = {plan.to_json(): file for file, plan in reversed(plans.items())}
        return tuple(plans.values())

    def write(
        self, plans: Collection[FaultPlan], *, tried: Collection[FaultPlan], broken: FaultPlan | None = None
    ) -> None:
        """Have it hold these plans in place of those that were tried, and one that broke the scenario."""
        files = {self._file(text): text for text in map(FaultPlan.to_json, plans)}
        if broken is not None:
            files[self._file(broken.to_json(), _BROKEN)] = broken.to_json()
        for text in map(FaultPlan.to_json, tried):
            if text in self._read and self._read[text] not in files:
                self._read[text].unlink(missing_ok=True)
        for file, text in files.items():
            if not file.exists():
                write_whole(file, f"{text}\n".encode(), 0o644)

    def _file(self, text: str, lead: str = "") -> Path:
        return self.path / f"{lead}{blake2b(text.encode(), digest_size=8).hexdigest()}.json"


def _plan_in(file: Path) -> FaultPlan | None:
    """The plan in a file; None if another fuzz has removed it meanwhile."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > MOST_BYTES:
        raise ValueError(f"corpus {file}: more than {MOST_BYTES} bytes: delete it")
    try:
        plan = FaultPlan.from_json(content)
    except ValueError as error:
        raise ValueError(f"corpus {file}: {error}: delete it") from error
    if size_of(plan) > MOST_STEPS:
        raise ValueError(f"corpus {file}: {size_of(plan)} acts and faults, more than {MOST_STEPS}: delete it")
    return plan
