"""`transitions` finds what an operator does wrong when a spec changes, and nothing where it does right."""

import os
from base64 import b64encode
from collections.abc import Mapping
from time import process_time
from typing import Annotated, Any

import pytest
from attrs import frozen

from reconcile import Context, Controller, Object, ObjectMeta, Write, field, resource
from reconcile.errors import TerminalError
from reconcile.kinds import ConfigMap, Secret
from reconcile.models import Rule, Schema
from reconcile.testing import (
    Apply,
    BrokenTransition,
    Scenario,
    TransitionsReport,
    Wait,
    World,
    replay,
    transitions,
)
from tests.simulation.toys import PLOT, Plot, bed, keep
from tests.testing.transition_bugs import (
    PLANTED,
    TWINS,
    PlantedBug,
    Text,
    TextSpec,
    keep_text,
    made,
    only_at_creation,
    page,
)

IN_FULL = "TRANSITIONS_IN_FULL" in os.environ


@pytest.mark.rule("transitions-found")
@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_a_planted_bug_is_found_from_the_model_alone(bug: PlantedBug) -> None:
    with pytest.raises(BrokenTransition) as caught:
        transitions(bug.wrong, budget=600)
    assert bug.rule in caught.value.rules
    assert bug.place in str(caught.value)
    assert len(caught.value.specs) <= 2


@pytest.mark.rule("transitions-found")
@pytest.mark.parametrize("bug", TWINS, ids=str)
def test_its_mended_twin_holds(bug: PlantedBug) -> None:
    report = transitions(bug.right, budget=600, only="*" if IN_FULL else bug.only, pairs=IN_FULL or bug.pairs)
    assert report.complete
    assert report.transitions > 10
    assert report.refusals > 0


@pytest.fixture(scope="module")
def whole_report() -> tuple[TransitionsReport, float]:
    """Of all changes of plots, and how many seconds of the processor they took."""
    began = process_time()
    return transitions(plots, budget=600), process_time() - began


@pytest.mark.rule("transitions-found")
def test_changes_take_less_processor_time_than_500_a_minute(
    whole_report: tuple[TransitionsReport, float],
) -> None:
    report, seconds = whole_report
    assert report.transitions > 200
    assert seconds < 60 * report.transitions / 500


def plots() -> Controller[Plot]:
    return Controller(Plot, keep, owns=[ConfigMap], name="plots")


# --- what is told ------------------------------------------------------------------------------------


def test_the_message_has_the_specs_what_differs_the_trace_and_how_to_repeat_it() -> None:
    with pytest.raises(BrokenTransition) as caught:
        transitions(made(Text, only_at_creation), budget=600)
    lines = str(caught.value).splitlines()
    assert lines[:6] == [
        "a Text goes wrong when its spec changes:",
        '  1. a new Text default/demo: {"spec":{}}',
        '  2. change spec.text from nothing to "a"',
        "",
        "What is wrong:",
        '  as-new: configmaps default/demo: data.text is ""; with a new object it is "a"',
    ]
    assert any("manager 1  runs sites for default/demo" in line for line in lines)
    assert lines[-2:] == ["To play it again:", "  transitions(..., only='spec.text')"]
    with pytest.raises(BrokenTransition, match=r"spec\.text"):
        transitions(made(Text, only_at_creation), only="spec.text", budget=600)


def test_the_plan_of_the_least_case_can_be_replayed_as_a_scenario() -> None:
    with pytest.raises(BrokenTransition) as caught:
        transitions(made(Text, only_at_creation), budget=600)
    run = replay(Scenario(controllers=made(Text, only_at_creation)), caught.value.plan.to_json())
    assert [act.text for act in run.world.acts] == [
        "apply texts default/demo",
        "edit texts default/demo",
        "delete texts default/demo",
    ]


def test_a_report_says_how_much_was_played_and_what_has_no_effect(
    whole_report: tuple[TransitionsReport, float],
) -> None:
    report, _ = whole_report
    text = str(report)
    assert report.complete
    assert (report.left, report.untried, report.uncombined) == ({}, [], 0)
    assert "not played" not in text
    assert f"{report.transitions} of {report.in_full} changes of {report.fields} fields" in text
    assert f"{report.pairs} of {report.pairs_in_full} pairs" in text
    assert "invalid values are refused, and change nothing" in text
    assert "spec.password" in report.without_effect
    assert not {"spec.size", "spec.crop"}.intersection(report.without_effect)


def test_a_budget_that_is_used_up_is_told() -> None:
    report = transitions(plots, budget=0.0)
    text = str(report)
    assert not report.complete
    assert f"0 of {report.in_full} changes of 1 field" in text
    assert report.left == {"metadata.labels": report.in_full}
    assert f"not played: {report.in_full} changes of metadata.labels" in text
    assert "spec.size" in report.untried
    assert f"not tried: {', '.join(report.untried)}" in text
    assert "the budget was used up" in text


@pytest.mark.rule("transitions-secrets")
def test_secret_fields_and_secrets_are_not_in_the_message() -> None:
    @frozen
    class LoginSpec:
        password: str = field(default="initial-one", secret=True)

    @resource("transitions.example.com/v1")
    class Login(Object):
        spec: LoginSpec = LoginSpec()

    async def once(ctx: Context[Login]) -> None:
        if not await ctx.owned(Secret):
            metadata = ObjectMeta(ctx.object.name, ctx.object.namespace)
            await ctx.apply(
                Secret(
                    metadata=metadata, data={"login": b64encode(ctx.object.spec.password.encode()).decode()}
                )
            )

    def logins() -> Controller[Login]:
        return Controller(Login, once, owns=[Secret], name="logins")

    sample = Login(metadata=ObjectMeta("one"), spec=LoginSpec("from-the-sample"))
    with pytest.raises(BrokenTransition) as caught:
        transitions(Scenario(controllers=logins, steps=[Apply(sample)]), budget=600)
    assert "spec.password" in str(caught.value)
    assert "from-the-sample" not in str(caught.value)
    assert "initial-one" not in str(caught.value)


# --- what is varied ----------------------------------------------------------------------------------


@frozen
class RangeSpec:
    least: Annotated[int, Schema(minimum=0, maximum=5)] = 0
    most: Annotated[int, Schema(minimum=0, maximum=5)] = 5


@resource("transitions.example.com/v1")
class Range(Object):
    spec: Annotated[RangeSpec, Schema(rules=Rule("self.least <= self.most", "least is above most"))] = (
        RangeSpec()
    )


async def keep_range(ctx: Context[Range]) -> None:
    await ctx.apply(page(ctx, {"range": f"{ctx.object.spec.least}-{ctx.object.spec.most}"}))


def test_a_value_that_a_rule_refuses_alone_is_made_valid_with_another_field() -> None:
    report = transitions(made(Range, keep_range), budget=600)
    assert report.complete
    assert not report.unplayed


@resource("transitions.example.com/v1")
class Named(Object):
    spec: Annotated[TextSpec, Schema(rules=Rule("!has(self.text) || self.text != 'b'", "no b"))] = TextSpec()


def test_a_value_that_cannot_be_made_valid_is_counted_and_told() -> None:
    report = transitions(made(Named, keep_text), only="spec.text", budget=600)
    assert [(one.field, one.name) for one in report.unplayed] == [("spec.text", "a text")]
    assert "no b" in report.unplayed[0].refusal
    assert "1 value that could not be made valid" in str(report)


@frozen
class FixedSpec:
    zone: Annotated[str, Schema(max_length=3, rules=Rule("self == oldSelf", "the zone cannot change"))] = "a"
    text: Annotated[str, Schema(max_length=3)] = "a"


@resource("transitions.example.com/v1")
class Fixed(Object):
    spec: FixedSpec = FixedSpec()


async def keep_fixed(ctx: Context[Fixed]) -> None:
    await ctx.apply(page(ctx, {"text": f"{ctx.object.spec.zone} {ctx.object.spec.text}"}))


def test_changes_of_an_immutable_field_are_counted_as_refused_and_the_next_one_is_carried_out() -> None:
    report = transitions(made(Fixed, keep_fixed), budget=600)
    assert report.complete
    assert report.immutable > 0
    assert f"{report.immutable} changes refused by the server" in str(report)


def test_a_terminal_error_is_not_a_failing_run() -> None:
    async def gives_up(ctx: Context[Text]) -> None:
        if ctx.object.spec.text == "b":
            for child in await ctx.owned(ConfigMap):
                await ctx.delete(child)
            raise TerminalError("no b")
        await keep_text(ctx)

    assert transitions(made(Text, gives_up), budget=600).complete


def test_a_scenario_gives_the_world_around_and_a_sample() -> None:
    async def copy(ctx: Context[Plot]) -> None:
        source = await ctx.client.get(ConfigMap, "source", "default")
        child = bed(ctx.object, 0).replace(data={**source.data, "crop": ctx.object.spec.crop})
        await ctx.apply(child)

    scenario = Scenario(
        controllers=lambda: Controller(Plot, copy, owns=[ConfigMap], writes=[Write(ConfigMap)], name="plots"),
        objects=[ConfigMap(metadata=ObjectMeta("source", "default"), data={"soil": "clay"})],
        steps=[Wait(1.0), Apply(PLOT)],
    )
    report = transitions(scenario, only="spec.crop", budget=600)
    assert report.complete
    assert report.fields == 1


def test_one_way_names_what_may_depend_on_the_past() -> None:
    wrong = made(Text, only_at_creation)
    assert transitions(wrong, only="spec.text", one_way=["configmaps.data"], budget=600).complete
    assert transitions(wrong, only="spec.text", one_way=["configmaps"], budget=600).complete
    with pytest.raises(BrokenTransition):
        transitions(wrong, only="spec.text", one_way=["configmaps.metadata"], budget=600)


def test_a_field_can_be_left_as_it_is() -> None:
    assert transitions(made(Text, only_at_creation), skip=["spec"], budget=600).complete


def test_a_field_that_is_skipped_stays_as_it_is_in_all_values_of_the_fields_around_it() -> None:
    seen = set()

    async def read(ctx: Context[Range]) -> None:
        seen.add(ctx.object.spec.most)

    report = transitions(made(Range, read), skip=["spec.most"], budget=600)
    assert report.complete
    assert seen == {5}


@frozen
class TaggedSpec:
    tags: Annotated[Mapping[str, str] | None, Schema(nullable=True)] = None
    text: Annotated[str, Schema(max_length=3)] = "a"


@resource("transitions.example.com/v1")
class Tagged(Object):
    spec: TaggedSpec = TaggedSpec()


def test_a_field_becomes_null_whatever_it_was_before() -> None:
    seen = set()

    async def keep_tags(ctx: Context[Tagged]) -> None:
        tags = ctx.object.spec.tags
        seen.add(tags if tags is None else len(tags))
        await ctx.apply(page(ctx, {"tags": repr(tags), "text": ctx.object.spec.text}))

    report = transitions(made(Tagged, keep_tags), only="spec.tags", budget=600)
    assert report.complete
    assert seen == {None, 0, 1, 2, 6}


def test_a_rule_can_be_left_out() -> None:
    assert transitions(made(Text, only_at_creation), without=["as-new"], budget=600).complete


def test_the_invariants_of_a_scenario_are_checked_if_asked_for() -> None:
    def no_b(world: World) -> None:
        assert all(text.spec.text != "b" for text in world.objects(Text)), "there is a b"

    scenario = Scenario(controllers=made(Text, keep_text), invariants=[no_b])
    assert transitions(scenario, only="spec.text", budget=600).complete
    with pytest.raises(BrokenTransition, match="no_b: there is a b"):
        transitions(scenario, only="spec.text", invariants=True, budget=600)


# --- what cannot be played -----------------------------------------------------------------------------


def configmaps() -> Controller[ConfigMap]:
    async def nothing(ctx: Context[ConfigMap]) -> None:
        return

    return Controller(ConfigMap, nothing, name="configmaps", operator="example.com")


def step(world: World) -> Any:
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("subject", "options", "error", "text"),
    [
        (configmaps, {}, TypeError, "ConfigMap is not a custom kind"),
        (plots, {"only": "spec.none"}, ValueError, "there is no field spec.none that has two values"),
        (plots, {"skip": ["spec", "spce"]}, ValueError, "there is no field spce to skip"),
        (plots, {"budget": -1.0}, ValueError, r"budget=-1.0 is not a number of seconds"),
        (plots, {"budget": float("nan")}, ValueError, "budget=nan is not a number of seconds"),
        (plots, {"without": ["nothing"]}, ValueError, "unknown rules: nothing; without= accepts as-new, "),
        (Scenario(controllers=plots, steps=[Wait(1.0)]), {}, ValueError, "add such an Apply"),
        (Scenario(controllers=plots, steps=[step, Apply(PLOT)]), {}, ValueError, "step step is a function"),
        (
            Scenario(controllers=plots, steps=[Apply({**BAD, "spec": {"size": 7}})])
            if (BAD := {"apiVersion": "toys.example.com/v1", "kind": "Plot", "metadata": {"name": "x"}})
            else None,
            {},
            ValueError,
            "there is no Plot to begin with: .*spec.size",
        ),
    ],
)
def test_what_cannot_be_played_is_refused(subject: Any, options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        transitions(subject, **options)


def test_the_same_seed_plays_the_same() -> None:
    def without_seconds(report: TransitionsReport) -> list[str]:
        return str(report).partition(" s\n")[2].splitlines()

    reports = [without_seconds(transitions(plots, only="spec.size", budget=600)) for _ in range(2)]
    assert reports[0] == reports[1]
