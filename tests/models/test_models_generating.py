"""From definitions to classes and back, with nothing of the schema lost."""

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from reconcile import Object, ObjectMeta, kind_of
from reconcile.commands.crds_command import definitions_of_module, models_in
from reconcile.commands.main import main, reconcile
from reconcile.models import decode, definition_of, encode
from reconcile.models.generating import source_of
from reconcile.models.naming import class_name, plural_of, python_name, singular
from reconcile.models.versions import by_kind
from tests.client.by_example import check_wire_names, classes_in

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT.parent / "shared" / "samples"
FOUND = sorted(SAMPLES.glob("*/crd-*.yaml"))
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NUMBERS = itertools.count()

OWN = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foxes.example.com}
spec:
  group: example.com
  names: {kind: Fox, listKind: FoxList, plural: foxes, singular: fox, shortNames: [fx], categories: [all]}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.cubs, statusReplicasPath: .status.cubs, labelSelectorPath: .status.who}
    additionalPrinterColumns:
    - {name: Cubs, type: integer, jsonPath: .spec.cubs, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        description: A fox.
        type: object
        required: [spec]
        x-kubernetes-validations:
        - {rule: "self.metadata.name != 'goose'", message: A goose is no fox, reason: FieldValueForbidden}
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [from, class, cubs2]
            properties:
              from: {type: string, description: "Where it comes from.\\nA \\"den\\", perhaps \\\\ or not."}
              class: {type: string, enum: [red, "it's \\"grey\\""], default: red}
              cubs: {type: integer, format: int32, default: 2, minimum: 0}
              cubs2: {type: integer, nullable: true}
              podIP: {type: string, format: ipv4}
              pod-ip: {type: string}
              field: {type: boolean, default: false}
              none: {type: string, default: ""}
              ratio: {type: number, format: double, default: 0.5}
              den:
                type: object
                default: {}
                minProperties: 1
                x-kubernetes-map-type: atomic
                properties:
                  depth: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                  free: {type: object, x-kubernetes-preserve-unknown-fields: true}
                  strict: {type: object}
                  any: {x-kubernetes-preserve-unknown-fields: true}
              dens:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  x-kubernetes-preserve-unknown-fields: true
                  properties:
                    name: {type: string, maxLength: 9, default: x}
                    since: {type: string, format: date-time}
                    every: {type: string, format: duration}
              names: {type: array, items: {type: string, pattern: '^[a-z\\d]"?$', nullable: true}}
              limits:
                type: object
                additionalProperties: {type: array, items: {type: integer, format: int64, maximum: 5}}
              either:
                type: object
                properties: {a: {type: string}, b: {type: string}}
                oneOf: [{required: [a]}, {required: [b]}]
          status:
            type: object
            properties:
              cubs: {type: integer}
              who: {type: string}
"""


def normal(schema: Any) -> Any:
    """A schema without what does not matter: order of names, and how a description is wrapped."""
    if isinstance(schema, list):
        return [normal(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {word: _normal_keyword(word, value) for word, value in schema.items()}


def _normal_keyword(word: str, value: Any) -> Any:
    if word == "properties":
        return {name: normal(one) for name, one in value.items()}
    if word == "description":
        return " ".join(value.split())
    if word in ("required", "enum"):
        return sorted(value)
    return value if word in ("default", "x-kubernetes-validations") else normal(value)


def wanted(version: dict[str, Any]) -> Any:
    schema = normal(version["schema"]["openAPIV3Schema"])
    for name in ("apiVersion", "kind", "metadata"):
        schema["properties"].pop(name, None)
    return schema


def loaded(source: str, folder: Path) -> ModuleType:
    """The module of that source."""
    name = f"generated_{next(_NUMBERS)}"
    file = folder / f"{name}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def check(definition: dict[str, Any], folder: Path) -> dict[str, type[Object]]:
    """Make classes of a definition, and of them a definition; gives the classes by version."""
    source = source_of(definition)
    module = loaded(source, folder)
    (made,) = definitions_of_module(module)
    spec, again = definition["spec"], made["spec"]
    assert (made["metadata"]["name"], again["names"]) == (definition["metadata"]["name"], spec["names"])
    assert (again["group"], again["scope"]) == (spec["group"], spec["scope"])
    versions = {version["name"]: version for version in again["versions"]}
    assert versions.keys() == {version["name"] for version in spec["versions"]}
    for version in spec["versions"]:
        check_version(version, versions[version["name"]], source)
    return {kind_of(model).resource.version: model for model in models_in(module)}


def check_version(version: dict[str, Any], again: dict[str, Any], source: str) -> None:
    assert normal(again["schema"]["openAPIV3Schema"]) == wanted(version)
    for word in ("served", "storage", "additionalPrinterColumns", "deprecated", "deprecationWarning"):
        assert again.get(word) == version.get(word), word
    subresources = dict(version.get("subresources", {}))
    if "scale" not in again.get("subresources", {}) and "# Its /scale is left out: " in source:
        subresources.pop("scale", None)
    assert again.get("subresources", {}) == subresources


@pytest.mark.rule("model-survives")
def test_a_definition_round_trips_through_its_classes(tmp_path: Path) -> None:
    assert check(yaml.safe_load(OWN), tmp_path).keys() == {"v1"}


@pytest.mark.rule("model-survives")
@pytest.mark.skipif(not FOUND, reason="the samples are not on this machine (shared/samples)")
@pytest.mark.parametrize("path", FOUND or [SAMPLES], ids=lambda path: path.stem)
def test_every_sample_round_trips_through_its_classes(path: Path, tmp_path: Path) -> None:
    models = check(yaml.load(path.read_text(), Loader=LOADER), tmp_path)
    for cls in set[type[Any]]().union(*(classes_in(model, set()) for model in models.values())):
        check_wire_names(cls)


@pytest.mark.skipif(not FOUND, reason="the samples are not on this machine (shared/samples)")
def test_no_definition_among_the_samples_is_left_out() -> None:
    defining = {
        path for path in SAMPLES.rglob("*.yaml") if "\nkind: CustomResourceDefinition" in path.read_text()
    }
    assert defining == set(FOUND)


def test_a_version_that_needs_conversion_is_kept_and_reported(tmp_path: Path) -> None:
    definition = yaml.safe_load(OWN)
    older = yaml.safe_load(OWN)["spec"]["versions"][0]
    older |= {"name": "v1beta1", "storage": False}
    older["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["from"]
    definition["spec"]["versions"].append(older)
    check(definition, tmp_path)
    assert (
        "# Not the same as the stored version without conversion: "
        ".spec.class is required in one and optional in the other.\n" in source_of(definition)
    )


def test_parts_that_no_class_can_express_are_listed_in_a_comment() -> None:
    definition = yaml.safe_load(OWN)
    definition["spec"]["names"]["singular"] = "vixen"
    definition["spec"]["conversion"] = {"strategy": "Webhook"}
    definition["spec"]["versions"][0]["served"] = False
    definition["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.from"}]
    assert (
        "# Left out: its singular vixen, its conversion by a webhook, that it is not served, "
        "its selectable fields.\n" in source_of(definition)
    )
    assert "Left out" not in source_of(yaml.safe_load(OWN))


def test_the_classes_read_and_write_objects(tmp_path: Path) -> None:
    fox = check(yaml.safe_load(OWN), tmp_path)["v1"]
    spec = {
        "from": "hill",
        "class": "red",
        "cubs": 0,
        "cubs2": None,
        "podIP": "10.0.0.1",
        "pod-ip": "x",
        "field": True,
        "ratio": 1.0,
        "den": {"depth": "3m", "any": [1], "strict": {}},
        "dens": [{"name": "a", "since": "2026-01-01T00:00:00Z", "every": "1m0s"}],
        "names": ["a", None],
        "limits": {"x": [1, 2]},
    }
    obj: Any = decode(fox, {"metadata": {"name": "f"}, "spec": spec})
    assert (obj.spec.from_, obj.spec.cubs, obj.spec.cubs2, obj.spec.names) == ("hill", 0, None, ("a", None))
    assert encode(obj)["spec"] == {**spec}
    assert obj.metadata == ObjectMeta("f")


def test_the_generated_source_is_stable_and_clean(tmp_path: Path) -> None:
    source = source_of(yaml.safe_load(OWN))
    assert source == source_of(yaml.safe_load(OWN))
    (tmp_path / "foxes.py").write_text(source)
    for command in (("check",), ("format", "--check", "--diff")):
        done = subprocess.run(
            [
                "ruff",
                *command,
                *("--config", str(ROOT / "pyproject.toml")),
                *("--config", 'lint.isort.known-third-party = ["reconcile"]'),  # as in a user's project
                str(tmp_path / "foxes.py"),
            ],
            executable=str(Path(sys.executable).parent / "ruff"),
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stdout


def test_a_scale_that_breaks_the_contract_is_left_out_and_reported(tmp_path: Path) -> None:
    definition = yaml.safe_load(OWN)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "cubs"
    ]["default"]
    source = source_of(definition)
    assert "# Its /scale is left out: .spec.cubs has no default.\n" in source
    assert kind_of(models_in(loaded(source, tmp_path))[0]).scale is None


def test_a_scale_whose_spec_may_be_absent_is_left_out_too(tmp_path: Path) -> None:
    definition = yaml.safe_load(OWN)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"]
    said = "# Its /scale is left out: .spec may be absent, and the default of .spec.cubs with it.\n"
    assert said in source_of(definition)
    assert kind_of(check(definition, tmp_path)["v1"]).scale is None


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("podIP", "pod_ip"),
        ("enableK8sToken", "enable_k8s_token"),
        ("from", "from_"),
        ("$ref", "ref"),
        ("2nd", "n2nd"),
        ("str", "str_"),
        ("a.b/c", "a_b_c"),
    ],
)
def test_names_become_python_identifiers(wire: str, name: str) -> None:
    assert python_name(wire, ()) == name


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Site", "sites"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Box", "boxes"),
        ("Branch", "branches"),
        ("Y", "ys"),
    ],
)
def test_the_plural_of_a_kind_follows_english_spelling(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def test_names_already_in_use_get_a_suffix() -> None:
    assert python_name("podIp", ("pod_ip",)) == "pod_ip_"
    assert (class_name("object"), class_name("mapping"), class_name("2x")) == (
        "ObjectValue",
        "MappingValue",
        "N2X",
    )
    assert (singular("Ports"), singular("Policies"), singular("Status")) == ("Port", "Policy", "StatusItem")


def test_the_command_writes_the_module_and_crds_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "crd.yaml").write_text(f"{OWN}---\n")
    name = f"foxes_{next(_NUMBERS)}"
    assert CliRunner().invoke(reconcile, ["models", "crd.yaml", "--out", f"{name}.py"]).exit_code == 0
    assert (tmp_path / f"{name}.py").read_text() == CliRunner().invoke(
        reconcile, ["models", "crd.yaml"]
    ).stdout
    result = CliRunner().invoke(reconcile, ["crds", name])
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.stdout)["metadata"]["name"] == "foxes.example.com"
    assert len(by_kind([])) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b", "has 0 CustomResourceDefinitions"),
        ("a: [", "cannot be read"),
        (f"{OWN}---{OWN}", "has 2 CustomResourceDefinitions"),
        ("apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition", "v1beta1"),
        (
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
            "is not a complete definition",
        ),
    ],
)
def test_a_file_that_is_not_a_definition_is_reported_in_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "crd.yaml").write_text(text)
    assert main(["models", str(tmp_path / "crd.yaml")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "nullable": True, "enum": ["a", None]},
        {"type": "number", "enum": [0.5, 1]},
        {"type": "number", "enum": [1, 2]},
        {"type": "integer", "enum": [1, 2]},
        {"type": "boolean", "enum": [True]},
    ],
)
def test_an_enum_of_whatever_values_gives_a_module_with_the_same_definition(
    field: dict[str, Any], tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": field}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Lamp", "plural": "lamps"},
        "versions": [version],
    }
    name = f"lamps_of_an_enum_{tmp_path.name.replace('-', '_')}"
    file = tmp_path / f"{name}.py"
    file.write_text(source_of({"metadata": {"name": "lamps.example.com"}, "spec": spec}))
    found = importlib.util.spec_from_file_location(name, file)
    assert found is not None
    assert found.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    (made,) = definition_of(module.Lamp)["spec"]["versions"]
    again = made["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"]
    assert {name: again.get(name) for name in field} == field
