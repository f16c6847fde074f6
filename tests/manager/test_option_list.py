"""How a manager is told to run: the constructor, then variables, then flags."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from reconcile import Controller, InformerOptions, LeaderElection, Manager, RequestLimiter
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.manager.assembly import request_limiter
from reconcile.manager.leadership import LeaseTerms
from reconcile.manager.option_list import (
    OPTIONS,
    TEXT_OPTIONS,
    ConfigurationError,
    OptionSpec,
    complete_options,
    for_controller,
    from_environment,
    from_flags,
    lease_terms,
    overridden,
    shown,
    table,
    variable_of,
)
from reconcile.sharding import Sharding
from reconcile.testing import VirtualClock, simulate
from tests.helpers.managers import idle
from tests.helpers.scenarios import simulated

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def configured(environ: dict[str, str], flags: dict[str, str | None] | None = None, **options: Any) -> Any:
    manager = Manager(environ=environ, **options)
    manager.configure(from_flags(flags or {}))
    return manager.options


def test_a_variable_overrides_the_constructor_and_a_flag_the_variable() -> None:
    assert configured({}, namespace="a")["namespace"] == "a"
    assert configured({"RECONCILE_NAMESPACE": "b"}, namespace="a")["namespace"] == "b"
    assert configured({"RECONCILE_NAMESPACE": "b"}, {"namespace": "c"}, namespace="a")["namespace"] == "c"
    assert configured({"RECONCILE_NAMESPACE": "b"}, {"namespace": None}, namespace="a")["namespace"] == "b"
    assert configured({"RECONCILE_NAMESPACE": ""}, namespace="a")["namespace"] == ""


TEXTS: dict[str, tuple[str, Any]] = {
    "namespace": ("shop", "shop"),
    "selector": ("team=a", "team=a"),
    "dry_run": ("false", False),
    "definitions": ("apply", "apply"),
    "take_over": ("true", True),
    "freeze_predecessor": ("false", False),
    "name": ("me", "me"),
    "embedded": ("true", True),
    "clusters": ("", ""),
    "serve": (":8080", ":8080"),
    "serve_certificates": ("/certificates", "/certificates"),
    "serve_review": ("true", True),
    "serve_metrics": ("local", "local"),
    "webhooks": (":9443", ":9443"),
    "webhook_certificates": ("/webhooks", "/webhooks"),
    "webhook_service": ("shop/webhooks", "shop/webhooks"),
    "ready_when": ("leading", "leading"),
    "leader_election": ("kube-system/lamps", "kube-system/lamps"),
    "lease_seconds": ("30", 30.0),
    "renew_seconds": ("20", 20.0),
    "retry_seconds": ("4", 4.0),
    "workers": ("3, toy=5", {"": 3, "toy": 5}),
    "timeout": ("60", 60.0),
    "threads": ("7", 7),
    "debug": ("false", False),
    "undeclared": ("refuse", "refuse"),
    "client_qps": ("12.5", 12.5),
    "client_burst": ("3", 3),
    "sync_seconds": ("7", 7.0),
    "stop_seconds": ("0.5", 0.5),
    "record": ("/recordings/toy.rec", "/recordings/toy.rec"),
    "record_mb": ("20", 20.0),
}


def test_every_text_option_can_be_set_by_a_variable() -> None:
    # By namespace, and by leader_election.
    excluded = {"namespaces": "", "sharding": "", "canary": 0.0, "loops": 1}
    assert set(TEXTS) == set(TEXT_OPTIONS) - set(excluded)
    environ = {variable_of(name): text for name, (text, _) in TEXTS.items()} | {"HOME": "/root"}
    manager = Manager(Controller(ConfigMap, idle, name="toy"), environ=environ)
    manager.configure()
    expected = {name: value for name, (_, value) in TEXTS.items()} | excluded
    assert shown(manager.options) == expected


def test_a_lease_given_as_text_keeps_the_identity_from_the_constructor() -> None:
    election = LeaderElection("a", identity="me")
    changed = configured({"RECONCILE_LEADER_ELECTION": "b"}, leader_election=election)["leader_election"]
    assert changed == LeaderElection("b", "default", "me")
    assert configured({"RECONCILE_LEADER_ELECTION": ""}, leader_election=election)["leader_election"] is None


def test_the_times_of_a_lease_change_one_by_one_and_must_leave_a_margin() -> None:
    lease: dict[str, Any] = {"leader_election": LeaderElection("a"), "renew_seconds": 8}
    assert lease_terms(configured({"RECONCILE_LEASE_SECONDS": "60"}, **lease)) == LeaseTerms(60, 8, 2)
    with pytest.raises(ConfigurationError, match="duration > renew_deadline"):
        configured({"RECONCILE_LEASE_SECONDS": "5"}, **lease)
    with pytest.raises(ConfigurationError, match="need leader_election or sharding"):
        configured({"RECONCILE_LEASE_SECONDS": "60"})


@pytest.mark.parametrize(
    ("said", "own", "holds"),
    [
        (10, None, 10),
        (10, 3, 3),
        ({"": 20, "toy": 5}, 3, 5),
        ({"": 20}, 3, 3),
        ({"": 20}, None, 20),
        ({"pod": 5}, 3, 3),
        ({"pod": 5}, None, 7),
    ],
)
def test_a_value_for_one_controller_overrides_its_own_setting(said: Any, own: int | None, holds: int) -> None:
    assert for_controller(said, "toy", own, 7) == holds


def test_an_option_for_an_unknown_controller_is_an_error_with_the_nearest_name() -> None:
    manager = Manager(Controller(ConfigMap, idle, name="copies"), environ={"RECONCILE_WORKERS": "copy=3"})
    with pytest.raises(
        ConfigurationError, match="workers: there is no controller copy: the nearest is copies"
    ):
        manager.configure()


@simulated
async def test_workers_and_timeouts_are_passed_to_the_controllers() -> None:
    said = {"RECONCILE_WORKERS": "3,second=7", "RECONCILE_TIMEOUT": "second=9"}
    controllers = [Controller(ConfigMap, idle, name=name) for name in ("first", "second")]
    async with Manager(
        *controllers, transport=InProcessTransport(ApiServer()), environ=said, clock=VirtualClock(0)
    ) as manager:
        runners = manager._runners
        assert [runner.workers for runner in runners] == [3, 7]
        assert [runner._executor.timeout for runner in runners] == [300, 9]


def test_a_rate_given_as_text_overrides_a_limiter_of_the_constructor() -> None:
    limiter = RequestLimiter(1, 1)
    assert request_limiter(configured({}, limiter=limiter)) is limiter
    assert request_limiter(configured({"RECONCILE_CLIENT_QPS": "0"}, limiter=limiter)) is None
    default = request_limiter(configured({}))
    assert default is not None
    assert (default.qps, default.burst) == (50, 100)


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("RECONCILE_NAMSPACE", "RECONCILE_NAMESPACE"),
        ("RECONCILE_LEADER", "RECONCILE_LEADER_ELECTION"),
        ("RECONCILE_STOP_SECOND", "RECONCILE_STOP_SECONDS"),
    ],
)
def test_an_unknown_variable_is_an_error_with_the_nearest_name(variable: str, nearest: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no option {variable}: the nearest is {nearest}$"):
        from_environment({variable: "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sync_seconds", "soon"),
        ("stop_seconds", "-1"),
        ("stop_seconds", "nan"),
        ("record_mb", "0.5"),
        ("sync_seconds", "inf"),
        ("client_qps", "-1"),
        ("client_burst", "0"),
        ("client_burst", "1.5"),
        ("embedded", "maybe"),
        ("serve", "localhost"),
        ("ready_when", "never"),
        ("serve_metrics", "some"),
        ("leader_election", "a/"),
        ("leader_election", "a/b/c"),
        ("name", ""),
        ("threads", "0"),
        ("clusters", "east"),
        ("clusters", "east="),
        ("clusters", "=ctx"),
        ("clusters", "East=ctx"),
        ("clusters", "a=x,a=y"),
        ("workers", "many"),
        ("workers", "=3"),
        ("workers", "toy="),
        ("workers", "toy=1,toy=2"),
        ("timeout", "0"),
        ("timeout", "toy=soon"),
        ("lease_seconds", "0"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_its_variable_or_flag(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^RECONCILE_{name.upper()}: "):
        from_environment({f"RECONCILE_{name.upper()}": text})
    with pytest.raises(ConfigurationError, match=f"^--{name.replace('_', '-')}: "):
        from_flags({name: text})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop_seconds", -1),
        ("workers", {"toy": 0}),
        ("threads", 1.5),
        ("ready_when", "never"),
        ("serve", "x"),
    ],
)
def test_constructor_values_have_the_same_bounds(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: expected .*, got "):
        Manager(**{name: value})


def test_an_unknown_option_of_the_constructor_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match="no option 'worker': the nearest is 'workers'"):
        Manager(worker=3)  # type: ignore[call-arg]


def test_a_new_option_needs_only_one_entry_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = OptionSpec(1.5, OPTIONS["stop_seconds"].read, "How long to nap.")
    for options in (OPTIONS, TEXT_OPTIONS):
        monkeypatch.setitem(options, "nap_seconds", spec)
    assert Manager().options["nap_seconds"] == 1.5  # type: ignore[typeddict-item]
    assert Manager(nap_seconds=2).options["nap_seconds"] == 2  # type: ignore[call-arg, typeddict-item]
    assert configured({"RECONCILE_NAP_SECONDS": "3"})["nap_seconds"] == 3
    assert configured({}, {"nap_seconds": "4"})["nap_seconds"] == 4
    row = "| `nap_seconds=` | `RECONCILE_NAP_SECONDS` | `--nap-seconds` | `1.5` | How long to nap. |"
    assert row in table()
    assert shown(Manager().options)["nap_seconds"] == 1.5


def test_informer_options_are_refused_for_a_class_that_is_not_a_kind() -> None:
    with pytest.raises(TypeError, match="str is not a kind"):
        Manager(informers={str: InformerOptions()})  # type: ignore[dict-item]


def test_an_embedded_server_and_a_transport_exclude_each_other() -> None:
    transport = InProcessTransport(ApiServer())
    with pytest.raises(ConfigurationError, match="exclude each other"):
        Manager(transport=transport, environ={"RECONCILE_EMBEDDED": "1"}).configure()


def test_a_manager_reads_its_variables_when_it_runs_and_logs_the_options_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = Manager(
        transport=InProcessTransport(ApiServer()),
        environ={"RECONCILE_STOP_SECONDS": "3"},
        namespace="shop",
        clock=VirtualClock(0),
    )
    manager.stop()
    with caplog.at_level(logging.INFO):
        simulate(manager.run)
    (line,) = [record for record in caplog.records if vars(record)["event"] == "configuration"]
    assert (line.stop_seconds, line.namespace) == (3.0, "shop")  # type: ignore[attr-defined]


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILE_BOGUS", "1")
    with pytest.raises(ConfigurationError, match="RECONCILE_BOGUS"):
        simulate(Manager(transport=InProcessTransport(ApiServer())).run)


def test_the_reference_contains_the_table_of_options() -> None:
    assert table() in REFERENCE.read_text()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"sharding": "a/b/c"}, "--sharding: expected NAME or NAMESPACE/NAME of a ring, got 'a/b/c'"),
        ({"sharding": "shop/Ring_1"}, "--sharding: 'Ring_1' cannot be the name of a ring"),
        ({"sharding": "Shop/ring"}, "--sharding: 'Shop' cannot be the namespace of a ring"),
        ({"sharding": "ring", "canary": "150%"}, "--canary: expected a share such as 5% or 0.05, got '150%'"),
        ({"sharding": "ring", "canary": "-5%"}, "--canary: expected a share such as 5% or 0.05, got '-5%'"),
        ({"sharding": "ring", "canary": "nan"}, "--canary: expected a share"),
        ({"canary": "5%"}, "canary= is a share of the objects of a ring: give sharding= too"),
        ({"sharding": "ring", "leader_election": "x"}, "sharding and leader_election exclude each other"),
    ],
)
def test_a_ring_that_cannot_be_is_refused_before_anything_starts(
    flags: dict[str, str | None], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(complaint)}"):
        configured({}, flags)


def test_an_identity_that_cannot_be_part_of_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="identity='A b' becomes part of a name"):
        Sharding("ring", identity="A b")


def test_a_shadow_of_a_canary_is_alone() -> None:
    asked = from_flags({"sharding": "shop/stamps", "canary": "5%", "dry_run": "true"})
    options = overridden(complete_options({}), asked)
    assert (options["sharding"], options["canary"]) == (None, 0.0)


def test_no_canary_overrides_that_of_the_constructor() -> None:
    ring = Sharding("stamps", "shop", canary=0.1)
    options = overridden(complete_options({"sharding": ring}), from_flags({"canary": "0"}))
    assert options["sharding"] is not None
    assert options["sharding"].canary == 0.0


@pytest.mark.parametrize(
    "variable",
    [
        "RECONCILE_SERVICE_HOST",
        "RECONCILE_SERVICE_PORT",
        "RECONCILE_WEBHOOKS_SERVICE_PORT_HTTPS",
        "RECONCILE_PORT",
        "RECONCILE_WEBHOOKS_PORT_443_TCP",
        "RECONCILE_PORT_443_TCP_ADDR",
    ],
)
def test_variables_of_a_service_are_no_options(variable: str) -> None:
    assert from_environment({variable: "10.0.0.1"}) == {}
