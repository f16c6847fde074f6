"""Laws that the webhooks of any kind should keep, tried on objects that are made from its schema."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from attrs import field, frozen

from reconcile.controller.admission import Admission
from reconcile.controller.declaration import Controller
from reconcile.models import Object, kind_of
from reconcile.models.conversions import are_convertible
from reconcile.models.versions import families
from reconcile.testing.admission_laws import AdmissionLaws
from reconcile.testing.conversion_laws import ConversionLaws
from reconcile.testing.law_examples import Example, ExampleKind
from reconcile.testing.law_requirements import LawFault, Requirement

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

P99_SECONDS: Final = 0.004
_SHARE: Final = 0.99
_MEASURED: Final = 200

Calls = Callable[[Example], Iterator[tuple[str, Callable[[], object]]]]


class LawBroken(AssertionError):
    """A law does not hold; the text has the law, the smallest object found, and the next step."""


@frozen
class LawReport:
    """What a law was tried on. `p99` is the time of a call (s) that 99 of 100 do not exceed, if measured."""

    law: str
    objects: int
    p99: float | None = None

    def __str__(self) -> str:
        measured = "" if self.p99 is None else f", {self.p99 * 1000:.1f} ms at p99"
        return f"{self.law}: held for {self.objects} objects{measured}"


@frozen(eq=False)
class Law:
    """One law of one kind: call it to try it. Raises LawBroken."""

    title: str
    _try: Callable[[], LawReport] = field(alias="check", repr=False)

    def __str__(self) -> str:
        return self.title

    def __call__(self) -> LawReport:
        """Try it on many objects, always the same ones."""
        __tracebackhide__ = True
        return self._try()


def laws(
    *subjects: "type[Object] | Admission[Any] | Controller[Any]",
    strategies: "Mapping[type[Object], SearchStrategy[Any]] | None" = None,
    examples: int = 100,
) -> Sequence[Law]:
    """The laws that conversion and admission of a kind should keep, each to be called in a test of its own.

    A class stands for the functions between the versions of its kind (`@converts`), an Admission for its
    functions, and a controller for both. `@pytest.mark.parametrize("law", laws(sites()), ids=str)` makes a
    test of each, whose body is `law()`. Each is tried on `examples` objects that the schema admits; CEL rules
    count, but validators of a class are not known: give `strategies` for a class that has some.

    A law that does not hold raises an AssertionError with the smallest object found and the next step.
    Needs hypothesis (`reconcile-runtime[testing]`). Raises ValueError if there is no function to try, and
    TypeError for a field whose type has no strategy.
    """
    given = strategies or {}
    found = [*_conversion_laws(subjects, given, examples), *_admission_laws(subjects, given, examples)]
    if not found:
        names = ", ".join(getattr(one, "__name__", str(one)) for one in subjects)
        raise ValueError(
            f"laws({names}): there is no function to try: give a class whose versions have @converts "
            "functions, an Admission, or a Controller with admission="
        )
    return found


def _kinds_of(subjects: Iterable[Any]) -> Iterator[type[Object]]:
    for subject in subjects:
        if isinstance(subject, type):
            yield subject
        else:
            yield subject.kind


def _admissions_of(subjects: Iterable[Any]) -> Iterator[Admission[Any]]:
    for subject in subjects:
        if isinstance(subject, Admission):
            yield subject
        elif isinstance(subject, Controller):
            yield from subject.admission


def _with_functions(subjects: Iterable[Any]) -> Iterator[Admission[Any]]:
    """Without the admissions that have rules alone, which API servers evaluate."""
    return (one for one in _admissions_of(subjects) if one.defaults is not None or one.refuses is not None)


def _conversion_laws(
    subjects: Iterable[Any], strategies: Mapping[type[Object], Any], examples: int
) -> Iterator[Law]:
    for versions in families(_kinds_of([*subjects, *_admissions_of(subjects)])):
        if len(versions) < 2 or not are_convertible(versions):
            continue
        kinds = [ExampleKind.of(model, strategies.get(model)) for model in versions]
        conversion = ConversionLaws(kinds)
        for kind in kinds:
            drawn = kind.stored()
            name = f"{kind.model.__name__} {kind_of(kind.model).resource.version}"
            for requirement in conversion.requirements(kind):
                yield _law(f"{name}: conversion: {requirement.promise}", requirement, drawn, examples)
            yield _time_law(f"{name}: conversion", drawn, conversion.calls)


def _admission_laws(
    subjects: Iterable[Any], strategies: Mapping[type[Object], Any], examples: int
) -> Iterator[Law]:
    for admission in _with_functions(subjects):
        kind = ExampleKind.of(admission.kind, strategies.get(admission.kind))
        drawn = kind.written()
        admission_laws = AdmissionLaws(admission, kind)
        for requirement in admission_laws.requirements():
            yield _law(f"{admission}: {requirement.promise}", requirement, drawn, examples)
        yield _time_law(str(admission), drawn, admission_laws.calls)


# --- trying ---------------------------------------------------------------------------------------


def _law(title: str, requirement: Requirement, drawn: "SearchStrategy[Example]", examples: int) -> Law:
    def check() -> LawReport:
        from hypothesis import strategies as st

        tried = 0

        def attempt(chosen: tuple[Example, ...]) -> None:
            nonlocal tried
            tried += 1
            requirement.check(*chosen)

        broken = _smallest(st.tuples(*[drawn] * requirement.objects), attempt, examples, title)
        if broken is not None:
            raise LawBroken(_described(title, *broken, requirement.advice))
        return LawReport(title, tried)

    return Law(title, check)


def _smallest(
    strategy: "SearchStrategy[Any]", attempt: Callable[[Any], None], examples: int, title: str
) -> tuple[tuple[Example, ...], LawFault] | None:
    """The smallest example that breaks a law, which hypothesis tries last."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis.errors import Flaky, Unsatisfiable

    found: list[tuple[tuple[Example, ...], LawFault]] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def search(chosen: tuple[Example, ...]) -> None:
        try:
            attempt(chosen)
        except LawFault as fault:
            found.append((chosen, fault))
            raise

    try:
        search()
    except (LawFault, Flaky):
        return found[-1]
    except Unsatisfiable:
        raise ValueError(
            f"{title}: found no object that the rules of the schema admit: give strategies= one for the class"
        ) from None
    return None


def _described(title: str, chosen: Sequence[Example], fault: LawFault, advice: str) -> str:
    shown = "\n".join(
        f"  {line}"
        for example in chosen
        for line in msgspec.json.format(msgspec.json.encode(example.shown), indent=2).decode().splitlines()
    )
    plural = "objects" if len(chosen) > 1 else "object"
    return f"{title}: does not hold: {fault}\nsmallest {plural} found:\n{shown}\nnext step: {advice}"


# --- time -----------------------------------------------------------------------------------------


def _time_law(name: str, drawn: "SearchStrategy[Example]", calls: Calls) -> Law:
    title = f"{name}: an answer takes at most {P99_SECONDS * 1000:g} ms"

    def check() -> LawReport:
        examples: list[Example] = []
        _smallest(drawn, examples.append, _MEASURED, title)
        first = _times(examples, calls)
        if _p99(first) <= P99_SECONDS:
            return LawReport(title, len(examples), _p99(first))
        # Processors are shared: what is slow only once is not the function's doing.
        times = [
            min(pair, key=lambda one: one[0]) for pair in zip(first, _times(examples, calls), strict=True)
        ]
        if (p99 := _p99(times)) <= P99_SECONDS:
            return LawReport(title, len(examples), p99)
        _, call, example = max(times, key=lambda one: one[0])
        fault = LawFault(
            f"{p99 * 1000:.1f} ms of processor time at p99 of {len(times)} calls, twice ({call})"
        )
        advice = "make the function cheaper: an API server waits for it in every write and read"
        raise LawBroken(_described(title, [example], fault, advice))

    return Law(title, check)


def _times(examples: Sequence[Example], calls: Calls) -> list[tuple[float, str, Example]]:
    """Processor seconds of each call, which other programs do not lengthen."""
    times = []
    for example in examples:
        for name, call in calls(example):
            before = time.thread_time()
            _quietly(call)
            times.append((time.thread_time() - before, name, example))
    return times


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        return  # another law says so


def _p99(times: Sequence[tuple[float, str, Example]]) -> float:
    ordered = sorted(seconds for seconds, _, _ in times)
    return ordered[math.ceil(_SHARE * len(ordered)) - 1]
