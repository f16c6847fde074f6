"""Objects of a cluster, as far as the checks look at them. None is where JSON has null."""

from typing import Any

from msgspec import Struct, field


class _Part(Struct, frozen=True, rename="camel"):
    """A part of an object; members that it does not name are skipped."""


class Metadata(_Part, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None
    resource_version: str = ""


class Head(_Part, frozen=True):
    """What every object has."""

    metadata: Metadata = Metadata()


class Condition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class NamespaceStatus(_Part, frozen=True):
    conditions: list[Condition] | None = None


class Namespace(Head, frozen=True):
    status: NamespaceStatus = NamespaceStatus()


# --- the operator -----------------------------------------------------------------------------------------


class Container(_Part, frozen=True):
    name: str = ""
    args: list[str] | None = None


class PodSpec(_Part, frozen=True):
    service_account_name: str = ""
    containers: list[Container] = []


class PodStatus(_Part, frozen=True):
    phase: str = ""
    conditions: list[Condition] | None = None


class Pod(Head, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def lives(self) -> bool:
        """Whether its processes may run."""
        return self.status.phase not in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        conditions = self.status.conditions or ()
        return any(one.type == "Ready" and one.status == "True" for one in conditions)


class Template(_Part, frozen=True):
    spec: PodSpec = PodSpec()


class Selector(_Part, frozen=True):
    match_labels: dict[str, str] | None = None


class DeploymentSpec(_Part, frozen=True):
    replicas: int = 1
    selector: Selector = Selector()
    template: Template = Template()


class DeploymentStatus(_Part, frozen=True):
    replicas: int | None = None


class Deployment(Head, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


# --- rights -----------------------------------------------------------------------------------------------


class Rule(_Part, frozen=True):
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    verbs: list[str] | None = None


class Role(Head, frozen=True):
    rules: list[Rule] | None = None


class Subject(_Part, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(_Part, frozen=True):
    kind: str = ""
    name: str = ""


class Binding(Head, frozen=True):
    """A RoleBinding, or, without a namespace, a ClusterRoleBinding."""

    role_ref: RoleRef = RoleRef()
    subjects: list[Subject] | None = None


# --- webhooks and definitions -----------------------------------------------------------------------------


class ServiceReference(_Part, frozen=True):
    namespace: str = ""
    name: str = ""
    port: int = 443


class ClientConfig(_Part, frozen=True):
    service: ServiceReference | None = None
    url: str | None = None
    ca_bundle: str | None = None


class Webhook(_Part, frozen=True):
    name: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: list[Rule] | None = None
    failure_policy: str = "Fail"


class WebhookConfiguration(Head, frozen=True):
    kind: str = ""
    webhooks: list[Webhook] | None = None


class ConversionWebhook(_Part, frozen=True):
    client_config: ClientConfig = ClientConfig()


class Conversion(_Part, frozen=True):
    strategy: str = "None"
    webhook: ConversionWebhook | None = None


class Schema(_Part, frozen=True):
    open_apiv3_schema: dict[str, Any] = field(default_factory=dict, name="openAPIV3Schema")


class Subresources(_Part, frozen=True):
    status: dict[str, Any] | None = None
    scale: dict[str, Any] | None = None


class Version(_Part, frozen=True):
    name: str = ""
    served: bool = True
    storage: bool = False
    schema: Schema = Schema()
    subresources: Subresources | None = None


class Names(_Part, frozen=True):
    kind: str = ""
    plural: str = ""


class DefinitionSpec(_Part, frozen=True):
    group: str = ""
    names: Names = Names()
    scope: str = "Namespaced"
    versions: list[Version] = []
    conversion: Conversion | None = None


class DefinitionStatus(_Part, frozen=True):
    stored_versions: list[str] | None = None
    conditions: list[Condition] | None = None


class Definition(Head, frozen=True):
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


class ServicePort(_Part, frozen=True):
    port: int = 0
    name: str = ""


class ServiceSpec(_Part, frozen=True):
    type: str = "ClusterIP"
    ports: list[ServicePort] | None = None


class Service(Head, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(_Part, frozen=True):
    ready: bool | None = None


class Endpoint(_Part, frozen=True):
    conditions: EndpointConditions | None = None

    @property
    def is_ready(self) -> bool:
        """A condition that is not known counts as true, as for kube-proxy."""
        return self.conditions is None or self.conditions.ready is not False


class EndpointSlice(Head, frozen=True):
    endpoints: list[Endpoint] | None = None


# --- Leases -----------------------------------------------------------------------------------------------


class LeaseSpec(_Part, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Head, frozen=True):
    spec: LeaseSpec = LeaseSpec()


# --- API priority and fairness ----------------------------------------------------------------------------


class FlowSubjectName(_Part, frozen=True):
    name: str = ""
    namespace: str = ""


class FlowSubject(_Part, frozen=True):
    kind: str = ""
    user: FlowSubjectName | None = None
    group: FlowSubjectName | None = None
    service_account: FlowSubjectName | None = None


class FlowResources(_Part, frozen=True):
    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None


class FlowRule(_Part, frozen=True):
    subjects: list[FlowSubject] | None = None
    resource_rules: list[FlowResources] | None = None


class FlowSchemaSpec(_Part, frozen=True):
    matching_precedence: int = 1000
    priority_level_configuration: FlowSubjectName = FlowSubjectName()
    rules: list[FlowRule] | None = None


class FlowSchema(Head, frozen=True):
    spec: FlowSchemaSpec = FlowSchemaSpec()


class LimitResponse(_Part, frozen=True):
    type: str = ""


class LimitedLevel(_Part, frozen=True):
    nominal_concurrency_shares: int = 30
    limit_response: LimitResponse = LimitResponse()


class PriorityLevelSpec(_Part, frozen=True):
    type: str = ""
    limited: LimitedLevel | None = None


class PriorityLevel(Head, frozen=True):
    spec: PriorityLevelSpec = PriorityLevelSpec()
