"""The rules of OLM's own validators for a `registry+v1` bundle, written anew from what those check.

operator-framework/api, pkg/validation/internal: bundle, csv, good_practices, object and operatorhubv2;
operator-registry, pkg/lib/bundle/validate; operator-controller, rukpak/render/registryv1/validators.
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import semver
import yaml

Document: TypeAlias = Mapping[str, Any]

ALLOWED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
}
CAPABILITIES = {"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}
ICONS = {"image/gif", "image/jpeg", "image/png", "image/svg+xml"}
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = "operators.operatorframework.io.bundle"


def faults_of(files: Mapping[str, str]) -> list[str]:
    """What OLM's validators would say, warnings too."""
    manifests = {path: text for path, text in files.items() if path.startswith("manifests/")}
    objects = [document for text in manifests.values() for document in yaml.safe_load_all(text)]
    versions = [one for one in objects if one["kind"] == "ClusterServiceVersion"]
    if len(versions) != 1 or len(objects) != len(manifests):
        return ["expected one ClusterServiceVersion, and one object in a file"]
    return [
        *_format(files),
        *_content(objects, versions[0]),
        *_version(versions[0]),
        *_shown(versions[0]),
        *_webhooks(versions[0]),
    ]


def _format(files: Mapping[str, str]) -> Iterator[str]:
    labels = yaml.safe_load(files["metadata/annotations.yaml"])["annotations"]
    expected = {"mediatype": "registry+v1", "manifests": "manifests/", "metadata": "metadata/"}
    for name, value in expected.items():
        if labels.get(f"{LABEL}.{name}.v1") != value:
            yield f"annotation {name}"
    channels = labels.get(f"{LABEL}.channels.v1", "").split(",")
    if not all(re.match("candidate|fast|stable", channel) for channel in channels):
        yield "channels"
    if labels.get(f"{LABEL}.channel.default.v1") not in channels:
        yield "default channel"
    if not labels.get(f"{LABEL}.package.v1"):
        yield "package"
    lines = re.findall(r"^LABEL (\S+)=(\S+)$", files["bundle.Dockerfile"], re.MULTILINE)
    if dict(lines) != labels:
        yield "the labels of the image are not the annotations"
    if len(gzip.compress("".join(files.values()).encode())) > 1 << 20:
        yield "size"


def _content(objects: list[Document], version: Document) -> Iterator[str]:
    for one in objects:
        if one["kind"] not in ALLOWED:
            yield f"{one['kind']} is not allowed in a bundle"
        if one["kind"] == "PodDisruptionBudget" and one["spec"].get("maxUnavailable") in (0, "0%"):
            yield "maxUnavailable is 0"
    owned = {
        (one["name"], one["version"], one["kind"])
        for one in version["spec"]["customresourcedefinitions"]["owned"]
    }
    names = [one["metadata"]["name"] for one in objects if one["kind"] == "CustomResourceDefinition"]
    if len(names) != len(set(names)):
        yield "a definition twice"
    served = {
        (one["metadata"]["name"], each["name"], one["spec"]["names"]["kind"])
        for one in objects
        if one["kind"] == "CustomResourceDefinition"
        for each in one["spec"]["versions"]
    }
    if not owned <= served or {name for name, _, _ in owned} != set(names):
        yield "owned definitions are not those of the bundle"
    accounts = {
        one["spec"]["template"]["spec"]["serviceAccountName"]
        for one in version["spec"]["install"]["spec"]["deployments"]
    }
    if any(one["kind"] == "ServiceAccount" and one["metadata"]["name"] in accounts for one in objects):
        yield "a ServiceAccount that OLM makes"


def _version(version: Document) -> Iterator[str]:
    name, spec = version["metadata"]["name"], version["spec"]
    for one in (name, spec.get("replaces", name)):
        if len(one) > 63 or not SUBDOMAIN.fullmatch(one):
            yield f"the name {one}"
        if not re.fullmatch(r"[^.]+\.v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", one):
            yield f"{one} is not NAME.vVERSION"
    if not semver.Version.is_valid(str(spec.get("version"))):
        yield "version"
    if not semver.Version.is_valid(str(spec.get("minKubeVersion"))):
        yield "minKubeVersion"
    modes = {mode["type"]: mode["supported"] for mode in spec["installModes"]}
    if len(modes) != len(spec["installModes"]) or not any(modes.values()):
        yield "installModes"
    if not modes.get("AllNamespaces"):
        yield "OLM v1 installs for all namespaces alone"
    if not spec.get("displayName") or spec["install"].get("strategy") != "deployment":
        yield "a required field is missing"
    rules = [
        rule
        for grants in ("permissions", "clusterPermissions")
        for grant in spec["install"]["spec"].get(grants, [])
        for rule in grant["rules"]
    ]
    if any("customresourcedefinitions" in rule.get("resources", ()) for rule in rules):
        yield "OLM manages definitions, not the operator"
    for deployment in spec["install"]["spec"]["deployments"]:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            if not {"cpu", "memory"} <= set(container["resources"]["requests"]):
                yield "requests"
    yield from _examples(version)


def _examples(version: Document) -> Iterator[str]:
    spec = version["spec"]
    examples = {
        (one["apiVersion"], one["kind"])
        for one in json.loads(version["metadata"]["annotations"]["alm-examples"])
    }
    provided = {
        (f"{one['name'].partition('.')[2]}/{one['version']}", one["kind"])
        for one in spec["customresourcedefinitions"]["owned"]
    }
    if examples != provided:
        yield "alm-examples are not of the provided APIs"


def _shown(version: Document) -> Iterator[str]:
    spec, annotations = version["spec"], version["metadata"]["annotations"]
    if any(not isinstance(value, str) for value in annotations.values()):
        yield "an annotation is not text"
    if not spec.get("provider", {}).get("name", "").strip():
        yield "provider"
    if not all(one.get("name") and "@" in one.get("email", "") for one in spec.get("maintainers", ())):
        yield "maintainers"
    if not all(one.get("name") and re.match(r"\w+://", one.get("url", "")) for one in spec.get("links", ())):
        yield "links"
    if annotations["capabilities"] not in CAPABILITIES:
        yield "capabilities"
    icons = spec.get("icon", ())
    if len(icons) != 1 or icons[0]["mediatype"] not in ICONS or not icons[0]["base64data"]:
        yield "icon"
    if not all(one.get("image") for one in spec.get("relatedImages", ())):
        yield "relatedImages"
    if not all(one.get("description") for one in spec["customresourcedefinitions"]["owned"]):
        yield "a definition without description"


def _webhooks(version: Document) -> Iterator[str]:
    spec = version["spec"]
    webhooks = spec.get("webhookdefinitions", [])
    deployments = {one["name"] for one in spec["install"]["spec"]["deployments"]}
    owned = {one["name"] for one in spec["customresourcedefinitions"]["owned"]}
    names = [(one["type"], one["generateName"]) for one in webhooks]
    if len(names) != len(set(names)):
        yield "a webhook twice"
    converted = [name for one in webhooks for name in one.get("conversionCRDs", ())]
    if len(converted) != len(set(converted)) or not set(converted) <= owned:
        yield "conversionCRDs"
    for one in webhooks:
        if one["deploymentName"] not in deployments or not SUBDOMAIN.fullmatch(one["generateName"]):
            yield f"the webhook {one['generateName']}"
        if one["sideEffects"] not in ("None", "NoneOnDryRun") or "v1" not in one["admissionReviewVersions"]:
            yield "a webhook with side effects, or of an older review"
        groups = {group for rule in one.get("rules", ()) for group in rule["apiGroups"]}
        if groups & {"*", "olm.operatorframework.io"}:
            yield "a webhook for a forbidden group"
    if converted and [mode["type"] for mode in spec["installModes"] if mode["supported"]] != [
        "AllNamespaces"
    ]:
        yield "conversion needs AllNamespaces alone"
