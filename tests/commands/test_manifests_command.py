"""`reconcile manifests`: what runs an operator, and that it runs under exactly the rights it is given."""

import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
import click
import pytest
import yaml
from attrs import evolve
from click.testing import CliRunner, Result
from sites import Site, SiteSpec, sites

from reconcile import Client, Context, Controller, Manager, Object, ObjectMeta, Watch, Write
from reconcile.commands.main import reconcile
from reconcile.commands.problems import Problem
from reconcile.commands.run_command import run
from reconcile.controller.declaration import Predecessor
from reconcile.controller.permissions import permissions_of, predecessor_permissions
from reconcile.embedded import service_account
from reconcile.kinds import ConfigMap, Deployment, Namespace, Pod, Secret
from reconcile.manager.option_list import from_flags
from reconcile.models.versions import is_custom
from reconcile.testing import FakeClient, eventually, run_once
from reconcile.testing.control_plane import embedded
from tests.commands.rights import Deployed, Document, rights_of

KUBECTL = shutil.which("kubectl")
ACCOUNT = service_account("sites-system", "sites")
EVERYWHERE: tuple[str, ...] = ()
SHOP = ("--namespaces", "shop")
SHARED = ("--sharding", "sites")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(reconcile, ["manifests", *arguments])


@cache
def documents(*options: str) -> Sequence[Document]:
    result = invoke("sites", *options)
    assert result.exit_code == 0, result.output
    return [document for document in yaml.safe_load_all(result.output) if document]


def of_kind(kind: str, *options: str) -> Sequence[Document]:
    return [document for document in documents(*options) if document["kind"] == kind]


# --- the operator under its rights ------------------------------------------------------------------------


def with_event(controller: Controller[Any]) -> Controller[Any]:
    """The controller, whose runs also record an Event."""

    async def reconcile_and_note(ctx: Context[Any]) -> None:
        await controller.reconcile(ctx)  # type: ignore[misc, arg-type]
        ctx.event("Kept", "it is in its desired state")

    return evolve(controller, reconcile=reconcile_and_note)


async def story(admin: Client, manager: Manager) -> None:
    """A site appears, is changed, and goes."""
    if await admin.find(Namespace, "shop") is None:
        await admin.create(Namespace(metadata=ObjectMeta("shop")))
    meta = ObjectMeta("web", "shop")
    async with manager:
        await admin.create(Site(metadata=meta, spec=SiteSpec("nginx:1", pull_secret="login")))
        await eventually(lambda: admin.get(Deployment, "web", "shop"))
        await admin.create(Secret(metadata=ObjectMeta("login", "shop")))
        await anyio.sleep(5)
        await admin.modify(Site, "web", "shop", lambda site: site.replace(spec=SiteSpec("nginx:2", 2)))
        await anyio.sleep(5)
        await admin.delete(await admin.get(Site, "web", "shop"))

        async def gone() -> bool:
            return await admin.find(Site, "web", "shop") is None

        await eventually(gone)


def deployed(options: tuple[str, ...]) -> Deployed:
    lost = ("*/deployments/*", "*/sites/web")
    return Deployed(documents(*options), ACCOUNT, [with_event(sites)], story, lost)


BAD_DAYS = {
    "update deployments": "a field of a child is set to null",
    "delete deployments": "a child is not wanted any more",
    "watch leases": "another manager leads",
    "list deployments": "the server does not stream lists",
    "list secrets": "the server does not stream lists",
    "list sites": "the server does not stream lists",
    "get secrets": "the reconciler reads a Secret live",
}
"""The rights that the story does not come to use, and what they are for."""


@pytest.mark.parametrize("options", [EVERYWHERE, SHOP], ids=["everywhere", "one namespace"])
def test_the_operator_runs_under_exactly_the_rights_of_its_manifests(options: tuple[str, ...]) -> None:
    operator = deployed(options)
    assert operator.refused() == set()
    rights = rights_of(operator.documents)
    needed = [right for right in rights if operator.refused([right])]
    assert {right.said for right in rights} - {right.said for right in needed} == set(BAD_DAYS)
    assert {(right.role, right.rule) for right in needed} == {(right.role, right.rule) for right in rights}


def test_pods_that_share_the_objects_run_under_exactly_the_rights_of_their_ring() -> None:
    operator = deployed(SHARED)
    assert operator.refused() == set()
    rights = [right for right in rights_of(operator.documents) if right.role == "sites-ring"]
    assert [right.verb for right in rights] == ["get", "list", "watch", "create", "update", "delete"]
    # A Lease is read when an answer was lost, and without `update` the member ends before it is refused.
    others = [right for right in rights if right.verb not in ("get", "update")]
    assert [right for right in others if not operator.refused([right])] == []


async def story_of(sample: Document, admin: Client, manager: Manager) -> None:
    """The sample appears, is changed, and goes."""
    async with manager:
        created = await admin.create(sample)
        await anyio.sleep(5)
        await admin.raw.merge(created, {"spec": {"message": "good morning"}}, guard={})
        await anyio.sleep(5)
        assert (await admin.get(ConfigMap, "sample-config", "default")).data == {"message": "good morning"}
        await admin.delete(created)


def test_an_operator_from_the_template_needs_each_rule_of_its_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(reconcile, ["init", "needs-rules"]).exit_code == 0
    monkeypatch.syspath_prepend(tmp_path / "needs-rules")
    sample = yaml.safe_load(Path("needs-rules/sample.yaml").read_text())
    controllers = [with_event(one) for one in importlib.import_module("needs_rules").manager.controllers]
    account = service_account("needs-rules-system", "needs-rules")
    for options in (EVERYWHERE, ("--namespaces", "default")):
        manifests = list(yaml.safe_load_all(invoke("needs_rules", *options).output))
        operator = Deployed(manifests, account, controllers, partial(story_of, sample))
        assert operator.refused() == set()
        rules = [
            list(rule) for _, rule in groupby(rights_of(manifests), lambda right: (right.role, right.rule))
        ]
        assert len(rules) == 6
        assert all(map(operator.refused, rules))


# --- what is written -----------------------------------------------------------------------------------


def rules_of(role: Document) -> dict[str, list[str]]:
    return {rule["resources"][0]: rule["verbs"] for rule in role["rules"]}


def test_named_namespaces_get_roles_and_there_is_no_cluster_role() -> None:
    options = ("--namespaces", "shop,blog")
    (deployment,) = of_kind("Deployment", *options)
    assert not [one for one in documents(*options) if one["kind"].startswith("Cluster")]
    places = [(one["metadata"]["name"], one["metadata"]["namespace"]) for one in of_kind("Role", *options)]
    assert places == [("sites", "shop"), ("sites", "blog"), ("sites-leader", "sites-system")]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--namespaces=shop,blog" in arguments
    leases = of_kind("Role", *options)[-1]["rules"]
    assert [rule.get("resourceNames") for rule in leases] == [None, ["sites"]]


@pytest.mark.parametrize("options", [(), ("--namespaces", "")])
def test_rights_and_pods_agree_on_the_namespaces_of_the_manager(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_of("m = Manager(Controller(Pod, keep), namespaces=['shop'])", tmp_path, monkeypatch, *options)
    assert "--namespaces=shop" in arguments_in(made)
    assert not [one for one in made if one["kind"].startswith("Cluster")]


def test_the_deployment_has_probes_a_lease_and_a_budget() -> None:
    (deployment,) = of_kind("Deployment", "--image", "example.com/sites:1", "--replicas", "3")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 3
    assert container["image"] == "example.com/sites:1"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["args"][:2] == ["run", "sites:manager"]
    assert "--leader-election=sites-system/sites" in container["args"]
    (budget,) = of_kind("PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert budget["spec"]["maxUnavailable"] == 1


def test_pods_that_share_the_objects_are_spread_and_replaced_one_by_one() -> None:
    (deployment,) = of_kind("Deployment", *SHARED)
    spec = deployment["spec"]
    assert spec["replicas"] == 3
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [one["topologyKey"].rpartition("/")[2] for one in spread] == ["zone", "hostname"]
    assert all(one["labelSelector"] == spec["selector"] for one in spread)
    assert "--sharding=sites-system/sites" in arguments_in(documents(*SHARED))
    assert "leader_election" not in flags_in(documents(*SHARED))
    (budget,) = of_kind("PodDisruptionBudget", *SHARED)
    assert budget["spec"]["maxUnavailable"] == 1
    assert not [one for one in of_kind("Role", *SHARED) if one["metadata"]["name"] == "sites-leader"]


def test_the_leases_of_a_ring_may_be_in_another_namespace() -> None:
    options = ("--sharding", "leases/shared", "--replicas", "12")
    (role,) = of_kind("Role", *options)
    assert (role["metadata"]["name"], role["metadata"]["namespace"]) == ("sites-ring", "leases")
    assert "--sharding=leases/shared" in arguments_in(documents(*options))
    assert of_kind("Deployment", *options)[0]["spec"]["replicas"] == 12


def test_a_manager_that_shares_its_objects_is_installed_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """from reconcile.sharding import Sharding
m = Manager(Controller(Pod, keep), sharding=Sharding('ring', 'shop'))"""
    made = made_of(source, tmp_path, monkeypatch)
    assert flags_in(made)["sharding"] == "shop/ring"
    election = "from reconcile import LeaderElection\nm = Manager(leader_election=LeaderElection('x'))"
    (tmp_path / "led.py").write_text(f"from reconcile import Controller, Manager\n{election}")
    result = invoke("led", "--sharding", "ring")
    assert isinstance(result.exception, SystemExit)
    assert "sharding and leader_election exclude each other" in result.output


def made_of(source: str, folder: Path, patch: pytest.MonkeyPatch, *options: str) -> Sequence[Document]:
    name = f"operator_{abs(hash(source)):x}"
    (folder / f"{name}.py").write_text(
        "from reconcile import Controller, Manager\nfrom reconcile.kinds import Pod\n"
        f"async def keep(ctx): ...\n{source}"
    )
    patch.syspath_prepend(folder)
    result = invoke(name, "--json", "--name", "op", *options)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.output)["items"])


def arguments_in(made: Sequence[Document]) -> list[str]:
    (deployment,) = [one for one in made if one["kind"] == "Deployment"]
    return list(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


@pytest.mark.rule("declared-metrics")
def test_without_a_certificate_metrics_are_served_only_inside_the_pod() -> None:
    assert "--serve-metrics=local" in arguments_in(documents())
    assert "--serve-metrics=local" in arguments_in(documents("--namespaces", "shop"))
    assert not [one for one in documents() if "reader" in one["metadata"]["name"]]


@pytest.mark.rule("declared-metrics")
def test_over_tls_the_api_server_authorises_access_to_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "m = Manager(Controller(Pod, keep), serve_certificates='/certificates')"
    made = made_of(source, tmp_path, monkeypatch)
    assert "--serve-review" in arguments_in(made)
    assert flags_in(made)["serve_review"] == "true"
    roles = {one["metadata"]["name"]: one["rules"] for one in made if one["kind"] == "ClusterRole"}
    assert roles["op-metrics-reader"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    granted = rules_of({"rules": roles["op"]})
    assert granted["tokenreviews"] == granted["subjectaccessreviews"] == ["create"]
    bound = [one["roleRef"]["name"] for one in made if one["kind"] == "ClusterRoleBinding"]
    assert bound == ["op"], "who collects is for the cluster's owner to say"
    alone = made_of(source, tmp_path, monkeypatch, "--namespaces", "shop")
    assert "--serve-metrics=local" in arguments_in(alone)
    assert not [one for one in alone if one["kind"].startswith("Cluster")]


def test_definitions_that_the_operator_applies_are_named_in_its_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from sites import sites\nm = Manager(sites, definitions='apply')"
    made = made_of(source, tmp_path, monkeypatch)
    assert flags_in(made)["definitions"] == "apply"
    rules = [rule for one in made if one["kind"] == "ClusterRole" for rule in one["rules"]]
    of_definitions = [rule for rule in rules if rule["apiGroups"] == ["apiextensions.k8s.io"]]
    (named,) = {tuple(rule["resourceNames"]) for rule in of_definitions if "create" not in rule["verbs"]}
    assert named == ("sites.example.com",)
    assert not any("*" in rule["resources"] for rule in of_definitions)


def flags_in(made: Sequence[Document]) -> dict[str, str]:
    """The flags of a pod's container as `reconcile run` parses them."""
    flags, _, _ = run.make_parser(click.Context(run)).parse_args(arguments_in(made)[1:])
    return {name: value for name, value in flags.items() if name not in ("targets", "yes")}


@pytest.mark.parametrize("options", [(), ("--namespaces", "shop")])
def test_the_arguments_of_the_pod_are_options_of_the_manager(options: tuple[str, ...]) -> None:
    manager = Manager(environ={})
    manager.configure(from_flags(flags_in(documents(*options))))
    assert (manager.options["serve"], manager.options["serve_metrics"]) == (":8080", "local")


def test_json_is_one_list() -> None:
    made = json.loads(invoke("sites", "--json").output)
    assert made["kind"] == "List"
    assert made["items"] == list(documents())


@pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_kubectl_builds_the_base_and_applies_it(tmp_path: Path) -> None:
    result = invoke("sites", "--out", str(tmp_path / "base"))
    assert result.exit_code == 0, result.output

    def kubectl(*arguments: str) -> str:
        command = [str(KUBECTL), *arguments]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def named(documents: Sequence[Document]) -> set[tuple[str, str]]:
        return {(one["kind"], one["metadata"]["name"]) for one in documents}

    assert named(list(yaml.safe_load_all(kubectl("kustomize", str(tmp_path / "base"))))) == named(documents())
    with embedded() as endpoint:
        kubeconfig = f"--kubeconfig={endpoint.kubeconfig}"
        said = kubectl(kubeconfig, "apply", "-k", str(tmp_path / "base"))
        assert said.count(" created") == len(documents())
        account = "--as=system:serviceaccount:sites-system:sites"
        assert kubectl(kubeconfig, "auth", "can-i", "patch", "sites.example.com", account) == "yes\n"


# --- rights that follow from declarations ------------------------------------------------------------------


async def keep(ctx: Context[Any]) -> None:
    pass


def granted(controller: Controller[Any], **options: bool) -> dict[str, tuple[str, ...]]:
    return {right.resource: right.verbs for right in permissions_of([controller], **options)}


def test_undeclared_writes_are_not_allowed() -> None:
    assert granted(Controller(ConfigMap, keep)) == {
        "configmaps": ("get", "list", "watch"),
        "events": ("create", "patch"),
    }


def test_kinds_that_are_only_looked_up_may_only_be_read() -> None:
    assert granted(Controller(ConfigMap, keep, reads=[Pod]))["pods"] == ("get", "list", "watch")


def test_writes_allow_the_verbs_that_they_name() -> None:
    writes: list[type[Object] | Write] = [
        Secret,
        Write(Pod, ("create",), subresource="eviction"),
        Write(Deployment, subresource="scale"),
    ]
    rights = granted(Controller(ConfigMap, keep, writes=writes, operator="example.com"))
    assert rights["secrets"] == ("get", "create", "update", "patch", "delete")
    assert rights["pods/eviction"] == ("create",)
    assert rights["deployments/scale"] == ("get", "create", "update", "patch")
    assert "pods" not in rights


async def keep_more(ctx: Context[ConfigMap]) -> None:
    await ctx.client.create(Secret(metadata=ObjectMeta("made", "default")))
    pod = await ctx.client.get(Pod, "p", "default")
    await ctx.client.delete(pod)


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        ((), ['Write(Secret, ("create",))', 'Write(Pod, ("delete",))']),
        ((Write(Pod, ("get",)), Secret), ['Write(Pod, ("delete",))']),
        ((Pod, Secret), []),
    ],
)
async def test_one_run_reports_writes_that_are_not_declared(
    writes: Sequence[type[Object] | Write], said: Sequence[str]
) -> None:
    config = ConfigMap(metadata=ObjectMeta("c", "default"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    controller = Controller(ConfigMap, keep_more, writes=writes, operator="example.com")
    done = await run_once(controller, config, FakeClient(config, pod), undeclared="warn")
    assert done.error is None
    assert done.undeclared == said


async def test_a_site_has_no_undeclared_writes() -> None:
    site = Site(metadata=ObjectMeta("web", "default"), spec=SiteSpec("nginx:1"))
    assert (await run_once(sites, site, FakeClient(site))).undeclared == []


def test_a_write_with_an_unknown_verb_is_refused() -> None:
    with pytest.raises(ValueError, match="'apply' is not an RBAC verb: use 'patch'"):
        Write(Pod, ("apply",))


def test_several_declarations_of_one_kind_become_one_rule() -> None:
    watches: list[Watch[ConfigMap, Secret]] = [Watch(Secret, by=lambda _: "s")]
    rights = granted(
        Controller(
            ConfigMap, keep, watches=watches, writes=[Write(Secret, ("delete",))], operator="example.com"
        )
    )
    assert rights["secrets"] == ("get", "list", "watch", "delete")


def test_finalizers_of_owners_are_allowed_on_request() -> None:
    assert granted(sites, owner_finalizers=True)["sites/finalizers"] == ("update",)


def test_an_operator_with_a_predecessor_may_list_it() -> None:
    original = Predecessor("Rival", leases=("rival",), images=("rival",))
    allowed = predecessor_permissions([Controller(ConfigMap, keep, predecessor=original)])
    assert [(one.resource, one.verbs) for one in allowed] == [
        ("leases", ("list",)),
        ("deployments", ("list",)),
    ]


def test_a_kind_is_custom_if_it_needs_a_definition() -> None:
    assert is_custom(Site)
    assert not any(map(is_custom, (Deployment, Pod)))


# --- what cannot be done -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("x = 1", (), "has no Manager and no Controller"),
        ("a, b = Manager(Controller(Pod, keep)), Manager()", (), "has 2 managers: name one:"),
        (
            "c = Controller(Node, keep)",
            ("--namespaces", "a"),
            "Controller(Node) is of a kind without namespaces",
        ),
        (
            "c = Controller(Pod, keep, watches=[Watch(Secret, by=str, everywhere=True)])",
            ("--namespaces", "a"),
            "Watch(Secret, everywhere=True) follows all namespaces",
        ),
        ("c = Manager(serve_review=True)", ("--namespaces", "a"), "serve_review asks for reviews"),
        ("c = Manager(serve_review=True)", (), "the pods would serve without TLS"),
        ("c = Manager(definitions='apply')", ("--namespaces", "a"), "changes definitions of the whole"),
        ("c = Manager(clusters={'east': 'x'})", (), "works in several clusters"),
        ("c = Controller(Pod, keep)", ("--namespaces", "A_b"), "'A_b' is not the name of a namespace"),
        ("c = Controller(Pod, keep)", ("--name", "Big"), "'Big' is not a valid operator name"),
    ],
)
def test_a_request_that_cannot_be_met_is_reported_with_the_next_step(
    source: str, options: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "from reconcile import *\nfrom reconcile.kinds import *\nasync def keep(ctx): ...\n"
    name = f"operator_{abs(hash(source)):x}"
    (tmp_path / f"{name}.py").write_text(head + source)
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(reconcile, ["manifests", name, *options], standalone_mode=False)
    assert isinstance(result.exception, Problem)
    assert said in result.exception.message
    assert result.exception.hint


def test_controllers_without_a_manager_are_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two_of_them.py").write_text(
        "from reconcile import Controller\nfrom reconcile.kinds import Pod, Secret\n"
        "async def keep(ctx): ...\npods = Controller(Pod, keep)\nsecrets = Controller(Secret, keep)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = json.loads(invoke("two_of_them", "--json").output)["items"]
    deployment = next(one for one in made if one["kind"] == "Deployment")
    assert deployment["metadata"]["name"] == "two-of-them"
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[:3] == ["run", "two_of_them:pods", "two_of_them:secrets"]


def test_a_bundled_controller_is_refused_because_its_kinds_may_already_be_defined() -> None:
    result = CliRunner().invoke(reconcile, ["manifests", "worker-groups"], standalone_mode=False)
    assert isinstance(result.exception, Problem)
    assert "worker-groups may be defined by another project" in result.exception.message
