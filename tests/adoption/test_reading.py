"""What is read of an operator on kopf without running it."""

import enum
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import kopf
import pytest

from reconcile.adoption.kopf_handlers import (
    EVERYTHING,
    KopfHandler,
    KopfOperator,
    ResourceNames,
    ResourceSelector,
)
from reconcile.adoption.kopf_modules import NotReadable, read_operator
from reconcile.adoption.kopf_report import as_json, as_text, notes_of, row_of
from reconcile.adoption.kopf_table import counterparts

SITES = str(Path(__file__).with_name("kopf_sites.py"))
ON = (
    *("startup", "cleanup", "login", "probe", "validate", "mutate"),
    *("resume", "create", "update", "delete", "field", "event"),
)
PODS = ResourceNames("", ["v1"], "Pod", "pods", "pod", ["po"], ["all"])


@pytest.fixture(scope="module")
def operator() -> KopfOperator:
    return read_operator([SITES], [])


@pytest.fixture(autouse=True)
def modules_of_this_test() -> Iterator[None]:
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("_read_"):
            del sys.modules[name]


def handler(operator: KopfOperator, name: str, decorator: str = "") -> KopfHandler:
    (found, *_) = [one for one in operator.handlers if one.place.name == name and decorator in one.decorator]
    return found


def written(folder: Path, text: str) -> str:
    file = folder / "operator_on_kopf.py"
    file.write_text(f"import kopf\n{text}")
    return str(file)


def test_each_decorator_of_kopf_is_read_under_its_name(operator: KopfOperator) -> None:
    elsewhere = {"kopf.timer", "kopf.daemon", "kopf.index"}
    assert {one.decorator for one in operator.handlers} == {f"kopf.on.{name}" for name in ON} | elsewhere


def test_handlers_that_kopf_adds_by_itself_are_not_the_author_s(operator: KopfOperator) -> None:
    assert {one.place.name for one in operator.handlers} >= {"log_in"}
    assert not [one for one in operator.handlers if one.place.name.startswith("login_")]


def test_reading_leaves_the_default_registry_as_it_was() -> None:
    before = kopf.get_default_registry()
    read_operator([SITES], [])
    assert kopf.get_default_registry() is before


def test_resources_are_named_as_the_author_named_them(operator: KopfOperator) -> None:
    assert str(handler(operator, "keep").selector) == "sites.example.com/v1"
    assert str(handler(operator, "follow").selector) == "pods.v1"
    assert str(handler(operator, "look").selector) == EVERYTHING
    assert str(handler(operator, "apart").selector) == "category all"
    assert handler(operator, "close").selector is None


def test_arguments_are_shown_and_what_may_be_a_credential_is_not(operator: KopfOperator) -> None:
    shown = str(handler(operator, "keep", "create"))
    assert shown == "@kopf.on.create(backoff=10, param=dict)"
    assert "labels={'site': kopf.PRESENT, 'tier': 'web'}" in str(handler(operator, "follow"))
    everything = json.dumps(as_json(operator)) + "\n".join(as_text(operator))
    assert "hunter2" not in everything


def test_settings_are_read_from_the_source(operator: KopfOperator) -> None:
    assert operator.setting("persistence.finalizer") == "example.com/sites"
    assert operator.setting("peering.name") == "sites"
    assert operator.setting("execution.max_workers") == 5
    assert str(operator.setting("admission.server")) == "kopf.WebhookServer(...)"
    assert operator.prefixes == ("sites.example.com",)


def test_the_source_says_what_a_handler_returns_remembers_writes_and_uses(operator: KopfOperator) -> None:
    facts = handler(operator, "keep").facts
    assert facts is not None
    assert facts.returns_value
    assert facts.remembers == ["SEEN"]
    assert facts.status_fields == ["ready"]
    assert facts.patches == ["spec.size"]
    assert facts.creates == ["config_map"]
    assert {"kopf.adopt", "kopf.TemporaryError"} <= set(facts.names)


def test_what_an_inner_function_returns_is_not_the_handler_s(operator: KopfOperator) -> None:
    facts = handler(operator, "resize").facts
    assert facts is not None
    assert not facts.returns_value
    assert facts.sleeps
    assert {"kopf.subhandler", "kopf.execute"} <= set(facts.names)


def test_what_needs_thought_has_a_row_of_the_table(operator: KopfOperator) -> None:
    notes = [note.what for note in notes_of(handler(operator, "keep", "create"))]
    assert "returns a value, which kopf keeps in status.keep" in notes
    assert "changes SEEN of its module" in notes
    assert "takes memo" in notes
    for one in operator.handlers:
        assert row_of(one) in counterparts().values()
        assert all(note.row in counterparts().values() for note in notes_of(one))


def test_a_person_reads_each_function_once_with_all_its_decorators(operator: KopfOperator) -> None:
    text = "\n".join(as_text(operator))
    assert text.count("\n  keep   ") == 1
    assert text.count("! takes memo") == 1
    for decorator in ("create", "resume", "update"):
        assert f"    @kopf.on.{decorator}(" in text
    assert max(map(len, text.splitlines())) <= 160


def test_a_named_registry_is_read_instead_of_the_default_one() -> None:
    operator = read_operator([SITES], [], "kopf_sites:OWN")
    assert [one.place.name for one in operator.handlers] == ["apart"]


@pytest.mark.parametrize("registry", ["kopf_sites", "kopf_sites:NONE", "kopf_sites:SITES"])
def test_what_is_no_registry_is_refused(registry: str) -> None:
    with pytest.raises(NotReadable):
        read_operator([SITES], [], registry)


@pytest.mark.parametrize("start", ["kopf.run()", "import asyncio; asyncio.run(kopf.operator())"])
def test_a_module_that_starts_kopf_when_imported_is_refused(tmp_path: Path, start: str) -> None:
    with pytest.raises(NotReadable, match="starts kopf when it is imported"):
        read_operator([written(tmp_path, start)], [])
    assert inspect.isfunction(kopf.run)
    assert kopf.run.__module__ != "reconcile.adoption.kopf_modules"


@pytest.mark.parametrize("text", ["raise SystemExit(3)", "1 / 0", "import no_such_module_anywhere", "def"])
def test_a_module_that_cannot_be_imported_is_a_clear_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotReadable, match="cannot be imported"):
        read_operator([written(tmp_path, text)], [])


def test_without_kopf_the_error_names_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kopf", None)
    with pytest.raises(NotReadable, match="into the environment of the operator"):
        read_operator([SITES], [])


def test_a_function_without_source_is_read_without_what_its_source_would_say(tmp_path: Path) -> None:
    text = """
exec('def made(**_): return 1')
kopf.on.create('sites')(made)
kopf.on.update('sites')(lambda **_: 1)
"""
    operator = read_operator([written(tmp_path, text)], [])
    assert [one.facts for one in operator.handlers] == [None, None]
    assert "its source is not available" in "\n".join(as_text(operator))


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (ResourceSelector(any_name="pods"), True),
        (ResourceSelector(any_name="po", group=""), True),
        (ResourceSelector(any_name=EVERYTHING), True),
        (ResourceSelector(category="all"), True),
        (ResourceSelector(kind="pods"), False),
        (ResourceSelector(any_name="pods", group="example.com"), False),
        (ResourceSelector(any_name="pods", version="v2"), False),
        (ResourceSelector(function="is_big"), False),
    ],
)
def test_a_selector_chooses_a_resource_as_kopf_does(selector: ResourceSelector, chosen: bool) -> None:
    assert selector.matches(PODS) is chosen
    if selector.function:
        return
    pods = kopf.Resource("", "v1", "pods", "Pod", "pod", frozenset({"po"}), frozenset({"all"}))
    words = {
        name: value
        for name in ("group", "version", "kind", "plural", "category")
        if (value := getattr(selector, name)) is not None
    }
    name = kopf.EVERYTHING if selector.any_name == EVERYTHING else selector.any_name
    from kopf._cogs.structs.references import Selector

    assert Selector(name, **words).check(pods) is chosen


INTERNAL = frozenset(
    """
    on LogFormat ConnectionInfo AiohttpSession WebhookClientConfigService WebhookClientConfig Operation
    UserInfo Headers SSLPeer WebhookFn WebhookServerProtocol OperatorSettings DiffBaseStorage
    AnnotationsDiffBaseStorage StatusDiffBaseStorage MultiDiffBaseStorage ProgressRecord ProgressStorage
    AnnotationsProgressStorage StatusProgressStorage MultiProgressStorage SmartProgressStorage
    RawEventType RawEvent RawBody Status Spec Meta Body BodyEssence Labels Annotations ObjectReference
    OwnerReference Logger ObjectLogger LocalObjectLogger FieldSpec FieldPath Diff DiffItem DiffOperation
    HandlerId Reason Patch PatchFn DaemonStopped DaemonStoppingReason SyncDaemonStopperChecker
    AsyncDaemonStopperChecker Resource login_via_pykube login_via_client login_via_async_client
    login_with_kubeconfig login_with_service_account
    """.split()  # noqa: SIM905
)
"""Types of arguments, storages and ways to log in, for which the rows of others stand."""


def test_every_name_that_kopf_offers_has_a_row() -> None:
    rows = counterparts()
    missing = {
        name
        for name in kopf.__all__
        if name not in INTERNAL and f"kopf.{name}" not in rows and f"@kopf.{name}" not in rows
    }
    assert missing == set()
    assert set(kopf.__all__) >= INTERNAL


def test_every_argument_of_a_decorator_has_a_row() -> None:
    from reconcile.adoption.kopf_arguments import RESOURCE

    decorators = [getattr(kopf.on, name) for name in (*ON, "timer", "daemon", "index", "subhandler")]
    names = {
        parameter.name
        for decorator in decorators
        for parameter in inspect.signature(decorator).parameters.values()
        if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
    }
    assert {name for name in names - set(RESOURCE) if f"{name}=" not in counterparts()} == set()


def test_every_argument_of_a_handler_has_a_row() -> None:
    from kopf._core.intents import causes

    hidden = {"stopper", "reset", "kwargs"}
    fields = {
        name
        for cause in vars(causes).values()
        if inspect.isclass(cause) and issubclass(cause, causes.BaseCause) and not issubclass(cause, enum.Enum)
        for name in cause.__dataclass_fields__
    }
    assert {name for name in fields - hidden if name not in counterparts()} == set()


def test_every_setting_of_kopf_has_a_row() -> None:
    sections = kopf.OperatorSettings().__dict__
    assert {name for name in sections if f"{name}.*" not in counterparts()} == set()
