"""Rules of admissions as policies: where an API server evaluates them, and for which writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Forbidden, Invalid, Key
from reconcile import Client, Controller, LabelSelector, Object, ObjectMeta, resource
from reconcile.embedded import InProcessTransport, User
from reconcile.embedded.schema.cel.admission_evaluation import Decision, Evaluation, program_for
from reconcile.kinds import ConfigMap, Pod
from reconcile.models import Rule, kind_of
from reconcile.testing import FakeClient
from reconcile.webhooks import Admission, AdmissionRequest, Refusal
from reconcile.webhooks.admission_calls import is_no_op
from reconcile.webhooks.admission_reviews import read_review
from reconcile.webhooks.configurations import Installed, WebhookService
from reconcile.webhooks.policies import policies_of
from reconcile.webhooks.routes import routes_of
from tests.webhooks.boxes import Box, review

OPERATOR = "shop.example.com"
AT = WebhookService("shop-system", "shop-webhooks")
INSTALLED = Installed(AT, "shop-system", "shop")
HOST_NETWORK = Rule("object.spec.hostNetwork != true", message="pods stay off the network of the host")


async def keep(obj: Box) -> None: ...


@resource("metrics.k8s.io/v1", kind="Pod", plural="pods")
class PodMetrics(Object): ...


def no_pods(pod: Any, old: Any, request: AdmissionRequest) -> list[Refusal]:
    return []


def controller(*admissions: Admission[Any]) -> Controller[Any]:
    return Controller(Box, keep, admission=admissions)


def pods(*rules: Rule | str, **options: Any) -> Admission[Pod]:
    return Admission(Pod, rules=rules or [HOST_NETWORK], operator=OPERATOR, **options)


def pod(**spec: Any) -> dict[str, Any]:
    made = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": made,
    }


def config_map(**more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
        **more,
    }


@pytest.mark.rule("admission-rules")
async def test_a_rule_of_a_built_in_kind_refuses_with_its_message() -> None:
    client = FakeClient(controller(pods()))
    await client.create(pod())
    with pytest.raises(Invalid) as refused:
        await client.create({**pod(hostNetwork=True), "metadata": {"name": "b", "namespace": "default"}})
    name = "rules.pods.shop.example.com"
    assert str(refused.value).endswith(
        f"pods \"b\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "
        "pods stay off the network of the host"
    )


async def test_a_deletion_is_refused_by_what_is_stored() -> None:
    rule = Rule("!has(oldObject.data) || !('keep' in oldObject.data)", message="it stays", reason="Forbidden")
    client = FakeClient(controller(Admission(ConfigMap, rules=rule, operations="DELETE", operator=OPERATOR)))
    client.add(config_map(data={"keep": "yes"}))
    client.add({**config_map(), "metadata": {"name": "b", "namespace": "default"}})
    with pytest.raises(Forbidden, match="it stays"):
        await client.delete(await client.get(ConfigMap, "a", "default"))
    await client.delete(await client.get(ConfigMap, "b", "default"))


async def test_the_requester_decides() -> None:
    rule = Rule(
        "request.userInfo.username == 'system:admin'",
        message_expression="request.userInfo.username + ' may not'",
    )
    client = FakeClient(controller(Admission(Box, rules=[rule])))
    await client.create(Box(metadata=ObjectMeta(name="a", namespace="default")))
    other = Client(InProcessTransport(client.server, user=User("eve", ("system:masters",))))
    with pytest.raises(Invalid, match="eve may not"):
        await other.create(Box(metadata=ObjectMeta(name="b", namespace="default")))


@pytest.mark.rule("admission-rules")
async def test_a_finalizer_can_always_be_removed_and_a_change_is_judged() -> None:
    client = FakeClient()
    client.serve(Box)
    held = await client.create(
        Box(metadata=ObjectMeta(name="a", namespace="default", finalizers=("shop.example.com/held",)))
    )
    client.serve(controller(Admission(Box, rules=["request.userInfo.username == 'nothing'"])))
    key, box = held.key, kind_of(Box).resource
    for change in ({"spec": {"size": 2}}, {"metadata": {"labels": {"a": "b"}}}):
        with pytest.raises(Invalid, match="failed expression: request"):
            await client.raw.patch(box, key, change, guard={})
    await client.raw.patch(box, key, {"metadata": {"finalizers": None}}, guard={})
    assert (await client.get(Box, "a", "default")).metadata.finalizers == ()


async def test_a_large_object_is_not_refused_for_the_cost_of_its_comparison() -> None:
    rule = "request.name != 'b'"
    admission = Admission(ConfigMap, rules=rule, operator=OPERATOR, required=True)
    client = FakeClient(controller(admission))
    await client.create(config_map(data={f"k{n}": "x" * 1000 for n in range(1000)}))
    patch = {"data": {"k1": "y"}}
    await client.raw.patch(kind_of(ConfigMap).resource, Key("default", "a"), patch, guard={})
    assert (await client.get(ConfigMap, "a", "default")).data["k1"] == "y"


async def test_the_admission_of_a_later_controller_replaces_the_policy() -> None:
    client = FakeClient(controller(pods()))
    client.serve(controller(pods("object.spec.hostPID != true")))
    await client.create(pod(hostNetwork=True))
    client.serve(controller())
    await client.create({**pod(hostPID=True), "metadata": {"name": "b", "namespace": "default"}})


# --- what is made -------------------------------------------------------------------------------------


@pytest.mark.rule("admission-rules")
def test_a_policy_and_its_binding_are_exact() -> None:
    admission = pods(
        labels=LabelSelector({"shop": "yes"}),
        namespaces=LabelSelector({"team": "a"}),
        conditions={"named": "has(object.metadata.name)"},
        operations=("CREATE", "DELETE"),
    )
    policy, binding = policies_of([admission], INSTALLED)
    name = {"name": "rules.pods.shop.example.com"}
    assert policy["metadata"] == binding["metadata"] == name
    assert binding["spec"] == {"policyName": name["name"], "validationActions": ["Deny"]}
    own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop-system"]}
    assert policy["spec"] == {
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "operations": ["CREATE", "DELETE"],
                    "scope": "Namespaced",
                }
            ],
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [own]},
            "objectSelector": {"matchLabels": {"shop": "yes"}},
        },
        "matchConditions": [
            {
                "name": "not-the-operator",
                "expression": 'request.userInfo.username != "system:serviceaccount:shop-system:shop"',
            },
            {"name": "named", "expression": "has(object.metadata.name)"},
        ],
        "validations": [
            {"expression": HOST_NETWORK.rule, "message": "pods stay off the network of the host"}
        ],
    }


@pytest.mark.rule("admission-rules")
def test_rules_of_an_own_kind_are_for_the_operator_too_and_fail_closed() -> None:
    (policy, _) = policies_of([Admission(Box, rules="has(request.userInfo.username)")], INSTALLED)
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert [one["name"] for one in policy["spec"]["matchConditions"]] == ["not-a-no-op"]
    assert "namespaceSelector" not in policy["spec"]["matchConstraints"]


@pytest.mark.rule("admission-rules")
def test_rules_alone_need_no_webhook() -> None:
    assert routes_of([controller(pods())]) == []
    assert policies_of([Admission(Pod, refuses=no_pods, operator=OPERATOR)], INSTALLED) == []


def test_a_second_admission_of_a_kind_has_another_name() -> None:
    first, second = pods(refuses=no_pods), pods("object.spec.hostPID != true", refuses=no_pods)
    names = [one["metadata"]["name"] for one in policies_of([first, second], INSTALLED)[::2]]
    assert names == ["rules.pods.shop.example.com", "rules.pods-2.shop.example.com"]
    assert [route.name for route in routes_of([controller(first, second)])] == [
        "refuses.pods.shop.example.com",
        "refuses.pods-2.shop.example.com",
    ]


def test_two_policies_with_one_name_are_refused_with_the_next_step() -> None:
    other = Admission(PodMetrics, rules="has(request.name)", operator=OPERATOR)
    with pytest.raises(ValueError, match=r"both named rules\.pods\.shop\.example\.com: give one of the two"):
        policies_of([pods(), other], INSTALLED)


_VALUES = st.one_of(st.booleans(), st.integers(-2, 2), st.text("ab", max_size=1))
_NESTED = st.recursive(_VALUES, lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2))
_TEXTS = st.dictionaries(st.sampled_from("ab"), st.text("ab", max_size=1), max_size=2)
_METADATA = st.fixed_dictionaries(
    {"name": st.just("a")},
    optional={"labels": _TEXTS, "annotations": _TEXTS, "finalizers": st.lists(st.text("ab"), max_size=1)},
)
_OBJECTS = st.fixed_dictionaries(
    {"metadata": _METADATA}, optional={"spec": _NESTED, "data": _NESTED, "status": _NESTED}
)


@pytest.mark.rule("admission-rules")
@given(_OBJECTS, _OBJECTS, st.booleans(), st.sampled_from(["UPDATE", "CREATE"]))
def test_the_condition_leaves_out_what_a_webhook_leaves_out(
    old: dict[str, Any], other: dict[str, Any], metadata_only: bool, operation: str
) -> None:
    obj = {**old, "metadata": other["metadata"]} if metadata_only else other
    (policy, _) = policies_of([Admission(Box, rules="has(request.name)")], Installed(AT))
    (condition,) = policy["spec"]["matchConditions"]
    values = {"object": obj, "oldObject": old, "request": {"operation": operation}}
    evaluation = Evaluation(values, lambda asked, verb: Decision(False))
    write = read_review(review(operation, obj, old))
    assert evaluation.value(program_for(condition["expression"])) is not is_no_op(write)
