"""No block of code stands in the documentation unchecked: what it shows is what happens."""

import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click
import pytest
from attrs import frozen

from controllers import nodegroups
from informers import Cache, NotFound
from reconcile import Condition, Context, Controller, Intent, Manager, Object, ObjectMeta, kind_of, resource
from reconcile.client.manifests import manifest_of
from reconcile.commands.explain_command import chain, head
from reconcile.commands.main import reconcile
from reconcile.errors import Forbidden
from reconcile.kinds import ConfigMap, Pod, PodSpec, Secret
from reconcile.models import definition_of
from reconcile.ops.debug_actions import DebugActions
from reconcile.storms.determinism import NondeterministicRun
from reconcile.testing import FakeClient, FaultPlan, VirtualClock, simulate
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.commands.helpers import running
from tests.docs.blocks import ROOT, all_blocks, assert_shown, code, parts, run
from tests.simulation.loops import fight

F = TypeVar("F", bound=Callable[..., Any])

# Pages whose blocks of a language are checked by a test that knows more of the subject.
ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("docs/explanation/events.md", "yaml"): "tests/controller/test_recorder.py",
    ("docs/explanation/workqueue.md", "python"): "tests/workqueue/test_docs.py",
    ("docs/explanation/workqueue.md", "text"): "tests/workqueue/test_docs.py",
    ("docs/how-to/autoscale-a-kind.md", "python"): "tests/blocks/test_autoscaler_at_work.py",
    ("docs/how-to/blocking-code.md", "python"): "tests/manager/test_how_to.py",
    ("docs/how-to/carry-out-steps.md", "python"): "tests/blocks/test_steps_at_work.py",
    ("docs/how-to/carry-out-steps.md", "yaml"): "tests/blocks/test_steps_at_work.py",
    ("docs/how-to/copy-objects.md", "python"): "tests/blocks/test_copier.py",
    ("docs/how-to/hold-capacity-pools.md", "python"): "tests/blocks/test_capacity.py",
    ("docs/how-to/keep-a-replica-group.md", "python"): "tests/blocks/test_replica_group_at_work.py",
    ("docs/how-to/logging.md", "json"): "tests/docs/test_logging_page.py",
    ("docs/how-to/logging.md", "python"): "tests/docs/test_logging_page.py",
    ("docs/how-to/logging.md", "text"): "tests/docs/test_logging_page.py",
    ("docs/how-to/embed-in-an-application.md", "python"): "tests/manager/test_embedding.py",
    ("docs/how-to/move-from-controller-runtime.md", "python"): "tests/adoption/test_move_pages.py",
    ("docs/how-to/move-from-kopf.md", "console"): "tests/adoption/test_move_pages.py",
    ("docs/how-to/move-from-kopf.md", "python"): "tests/adoption/test_move_pages.py",
    ("docs/how-to/move-from-kopf.md", "yaml"): "tests/commands/test_adopt_rights.py",
    ("docs/how-to/models.md", "python"): "tests/models/test_models_how_to.py",
    ("docs/how-to/name-an-operator.md", "python"): "tests/manager/test_how_to.py",
    ("docs/how-to/roll-out-a-kind.md", "python"): "tests/blocks/test_rollout_page.py",
    ("docs/how-to/several-clusters.md", "python"): "tests/manager/test_how_to.py",
    ("docs/how-to/share-objects-among-replicas.md", "python"): "tests/manager/test_how_to.py",
    ("docs/how-to/admission.md", "python"): "tests/manager/test_how_to.py",
    ("docs/how-to/two-versions-in-production.md", "python"): "tests/manager/test_how_to.py",
    ("docs/how-to/two-versions-in-production.md", "text"): "tests/commands/test_crds_diff.py",
    ("docs/how-to/replay-production.md", "text"): "tests/commands/test_replay_command.py",
    ("docs/how-to/install-an-operator.md", "yaml"): "tests/commands/test_install_page.py",
    ("docs/how-to/instead-of-envtest.md", "ini"): "tests/testing/test_kube_fixtures.py",
    ("docs/how-to/instead-of-envtest.md", "python"): "tests/testing/test_kube_fixtures.py",
    ("docs/how-to/test-an-operator.md", "python"): "tests/testing/test_testing_pages.py",
    ("docs/how-to/upgrade-an-operator.md", "python"): "tests/testing/test_testing_pages.py",
    ("docs/how-to/upgrade-an-operator.md", "text"): "tests/testing/test_testing_pages.py",
    ("docs/reference/models.md", "python"): "tests/models/test_models_reference.py",
    ("docs/tutorial/first-operator.md", "console"): "tests/docs/test_tutorials.py",
    ("docs/tutorial/first-operator.md", "python"): "tests/docs/test_tutorials.py",
    ("docs/how-to/find-what-is-wrong.md", "console"): "tests/doctor/test_page.py",
    ("docs/how-to/watch-an-operator.md", "yaml"): "tests/status/test_page_of_a_manager.py",
    ("docs/tutorial/webhooks.md", "console"): "tests/docs/test_tutorials.py",
    ("docs/tutorial/webhooks.md", "python"): "tests/docs/test_tutorials.py",
    ("docs/tutorial/testing.md", "python"): "tests/testing/test_testing_pages.py",
    ("docs/tutorial/testing.md", "text"): "tests/testing/test_testing_pages.py",
}

HERE: set[tuple[str, str]] = set()

# The first cell of a table may be a line of a log.
INLINE = re.compile(r"(?<!^\| )`((?:kubectl )?reconcile [a-z]+(?: [^`|…\[\]]+)?)`", re.MULTILINE)

# What may be typed besides our own commands and `make`: nothing of it is ours to check.
PROGRAMS = frozenset(
    {"cd", "export", "git", "kubectl", "pip", "pytest", "python3", ".", "docker", "mypy", "bash", "helm"}
)
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def checks(page: str, language: str) -> Callable[[F], F]:
    """The test below checks the blocks of that page in that language."""
    HERE.add((page, language))
    return lambda test: test


@pytest.mark.rule("docs-blocks")
def test_the_list_of_unchecked_blocks_is_empty() -> None:
    unchecked = [
        str(block)
        for block in all_blocks()
        if (block.page, block.language) not in HERE | ELSEWHERE.keys()
        and not block.file
        and not (block.language == "console" and not block.has_output)
    ]
    assert unchecked == []


def test_every_listed_page_has_checked_blocks() -> None:
    there = {(block.page, block.language) for block in all_blocks()}
    assert (HERE | ELSEWHERE.keys()) - there == set()


@pytest.mark.parametrize(("page", "test"), sorted({(page, test) for (page, _), test in ELSEWHERE.items()}))
def test_a_block_checked_elsewhere_is_read_by_that_test(page: str, test: str) -> None:
    assert Path(page).stem in (ROOT / test).read_text()


@pytest.mark.parametrize("block", [block for block in all_blocks() if block.file], ids=str)
def test_a_block_that_shows_a_file_is_that_file(block: Any) -> None:
    assert block.text == (ROOT / block.file).read_text()


@pytest.mark.parametrize("block", [one for one in all_blocks() if one.language == "console"], ids=str)
def test_commands_in_blocks_can_be_typed(block: Any) -> None:
    for command in block.commands:
        for program, *arguments in parts(command):
            assert_typed(program, arguments)


def test_commands_within_sentences_can_be_typed() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for command in INLINE.findall(page.read_text()):
            program, *arguments = next(parts(command))
            try:
                assert_typed(program, arguments)
            except click.UsageError as error:
                pytest.fail(f"{page.relative_to(ROOT)}: `{command}`: {error.format_message()}")


def assert_typed(program: str, arguments: list[str]) -> None:
    if program == "make":
        assert arguments[0] in TARGETS
    elif program == "reconcile":
        assert_parsed(arguments)
    elif (program, *arguments[:1]) == ("kubectl", "reconcile"):
        assert_parsed(arguments[1:])
    else:
        assert program in PROGRAMS


def assert_parsed(arguments: list[str]) -> None:
    """The command exists, and takes these options, and no fewer arguments. Nothing is run."""
    command: click.Command = reconcile
    with ExitStack() as stack:
        context = stack.enter_context(click.Context(command))
        while isinstance(command, click.Group) and arguments:
            name, *arguments = arguments
            found = command.get_command(context, name)
            assert found is not None, name
            command, context = found, stack.enter_context(click.Context(found, parent=context))
        _, rest, _ = command.make_parser(context).parse_args(arguments)
        assert rest == []


# --- explanation ------------------------------------------------------------------------------------


@checks("docs/explanation/architecture.md", "text")
def test_the_import_layers_match_the_drawing() -> None:
    floors, wings, flow, owners = code("docs/explanation/architecture.md", "text")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {contract["name"]: contract["layers"] for contract in contracts if contract["type"] == "layers"}
    drawn = re.findall(r"^(\w+)/ +floor \d", floors, re.MULTILINE)
    assert drawn[::-1] == layers["An import goes down a floor or stays on it"]
    inside = layers["Inside reconcile an import goes down a floor or stays in its wing"]
    names = [{part.strip().removeprefix("reconcile.") for part in layer.split("|")} for layer in inside]
    rooms = [{name for name in layer if (ROOT / "reconcile" / name).is_dir()} for layer in names]
    assert [set(re.findall(r"(\w+)/", line)) for line in wings.splitlines()] == rooms
    text = (ROOT / "docs/explanation/architecture.md").read_text()
    files = dict(re.findall(r"^\| (\w+) \|.*\| `([\w/.]+)`", text, re.MULTILINE))
    assert all((ROOT / file).exists() for file in files.values())
    named = {"transport": "Transport", "reflector": "Reflector", "store": "Store", "queue": "WorkQueue"}
    named |= {"run": "RunExecutor", "client": "Client"}
    assert {named[part.strip()] for part in flow.split("->") if part.strip() != "handler"} <= files.keys()
    source = "".join(path.read_text() for path in (ROOT / "reconcile").rglob("*.py"))
    source += (ROOT / "informers/cache.py").read_text()
    for owner in re.findall(r"^ *(\w+) ", owners, re.MULTILINE):
        assert re.search(rf"^class {owner}\b", source, re.MULTILINE), owner


@checks("docs/explanation/cache.md", "text")
def test_the_drawn_path_of_a_change_names_existing_modules() -> None:
    (flow,) = code("docs/explanation/cache.md", "text")
    assert re.findall(r"> (\w+)", flow) == ["reflector", "step", "store", "handlers", "queue"]
    for file in ("reflector", "reflector_state", "store", "handlers"):
        assert (ROOT / "informers" / f"{file}.py").exists()


@checks("docs/explanation/cache.md", "python")
def test_the_cache_accepts_the_options_on_the_page() -> None:
    pods, secrets = kind_of(Pod).resource, kind_of(Secret).resource
    cache = run("docs/explanation/cache.md", transport=FakeClient().transport, PODS=pods, SECRETS=secrets)[
        "cache"
    ]
    assert isinstance(cache, Cache)
    assert cache.declare(pods).store.lacks("/status/phase")
    assert cache.declare(secrets).store.lacks("/data")
    assert cache.namespaces == ("team-a", "team-b")


@checks("docs/explanation/simulation.md", "python")
def test_the_scenarios_of_the_explanation_run() -> None:
    told: list[FaultPlan] = []

    async def scenario(plan: FaultPlan) -> None:
        told.append(plan)

    async def keep(ctx: Context[Any]) -> None:
        spec = PodSpec(({"name": "web", "image": "nginx:1.29"},))
        for number in range(ctx.object.spec.replicas):
            await ctx.apply(Intent(Pod, metadata=ObjectMeta(f"{ctx.object.name}-{number}"), spec=spec))
        ctx.prune()
        ctx.condition("Ready", True, reason="Made")

    given = {"Site": Site, "SiteSpec": SiteSpec, "Pod": Pod, "ObjectMeta": ObjectMeta}
    names = run(
        "docs/explanation/simulation.md",
        scenario=scenario,
        make_controller=lambda: Controller(Site, keep, owns=[Pod]),
        **given,
    )
    assert told == [names["plan"]]
    names["test_my_operator_survives_everything"]()  # of the last scenario, which has obligations


@checks("docs/explanation/simulation.md", "text")
def test_the_story_of_a_livelock_is_as_shown() -> None:
    run = ScenarioRunner(fight()).run(FaultPlan())
    (shown,) = code("docs/explanation/simulation.md", "text")
    assert shown.strip() in format_trace(run)


# --- how to -----------------------------------------------------------------------------------------


@checks("docs/how-to/make-the-cache-smaller.md", "python")
def test_the_cache_becomes_smaller_as_the_page_describes() -> None:
    run("docs/how-to/make-the-cache-smaller.md")


@checks("docs/how-to/debug-a-storm.md", "console")
def test_a_storm_is_explained_as_the_page_shows() -> None:
    said: list[str] = []

    async def look() -> None:
        client = FakeClient(WEB)
        manager = Manager(storming, transport=client.transport, clock=VirtualClock(0), environ={})
        async with manager:
            await anyio.sleep(12)
            actions = DebugActions(lambda: manager._runners, why=manager._why)
            (told,) = actions.explain("Site", "default/web")["controllers"]
            said.extend([*head(told), *(line for run in told["runs"] for line in chain(run))])

    simulate(look)
    shown = "".join(code("docs/how-to/debug-a-storm.md", "console")).partition("default/web\n")[2]
    assert_shown(shown, "\n".join(said))


@checks("docs/how-to/debug-a-storm.md", "python")
async def test_the_test_on_the_page_detects_a_storm_in_advance() -> None:
    test = run("docs/how-to/debug-a-storm.md", sites=storming, WEB=WEB)
    with pytest.raises(NondeterministicRun, match="stamp"):
        await test["test_keeping_a_site_is_deterministic"]()


# --- reference --------------------------------------------------------------------------------------


@checks("docs/reference/controllers.md", "python")
def test_the_bundled_controllers_fit_into_one_manager() -> None:
    assert len(run("docs/reference/controllers.md")["manager"].controllers) == 4


@checks("docs/reference/controllers.md", "yaml")
async def test_the_node_autoscaler_on_the_page_is_accepted_by_its_definition() -> None:
    (text,) = code("docs/reference/controllers.md", "yaml")
    client = FakeClient(nodegroups.definition(), manifest_of(text))
    there = await client.get(nodegroups.NodeAutoscaler, "all", "clusters")
    assert list(there.spec.expanders) == ["priority", "least-waste"]


@checks("docs/reference/embedded-api-server.md", "console")
def test_the_api_server_prints_what_the_page_shows(tmp_path: Path) -> None:
    (shown,) = code("docs/reference/embedded-api-server.md", "console")
    command, _, answer = shown.removeprefix("$ reconcile ").partition("\n")
    with running(*command.split(), home=tmp_path) as process:
        process.wait_for("Ctrl-C stops it")
        assert_shown(answer, process.said)


@checks("docs/reference/embedded-api-server.md", "python")
async def test_the_admission_function_on_the_page_completes_and_refuses() -> None:
    client = FakeClient(definition_of(Site))
    run("docs/reference/embedded-api-server.md", server=client.server)
    with pytest.raises(Forbidden, match="a site needs a replica"):
        await client.create(Site(metadata=ObjectMeta("none", "default"), spec=SiteSpec(replicas=0)))
    with pytest.raises(NotFound):
        await client.get(Site, "none", "default")
    await client.create(Site(metadata=ObjectMeta("one", "default"), spec=SiteSpec(replicas=1)))


# --- what pages take for granted --------------------------------------------------------------------


@frozen
class SiteSpec:
    replicas: int = 1


@frozen
class SiteStatus:
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


WEB = Site(metadata=ObjectMeta("web", "default"))


async def stamp(ctx: Context[Site]) -> None:
    data = {"stamp": ctx.client.clock.now().isoformat()}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))


storming = Controller(Site, stamp, owns=[ConfigMap], name="site")
