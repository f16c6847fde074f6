"""The renderer and the check of values do what Helm did, and what it does where it is installed."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.chart_renderer import Chart, TemplateError, objects_in, parse
from tests.helpers.chart_schema import refused
from tests.shipping.charts import DOORS, chart, schema_of
from tests.shipping.record_charts import CASES, RECORDED, TARGET, helm, unpack

RENDERED = [name for name in CASES if name != "refused"]
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="there is no helm on the PATH")


def recorded() -> Chart:
    return Chart.read(RECORDED / "chart")


def values_of(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((RECORDED / f"{name}.values.yaml").read_text())
    return values


def output_of(name: str) -> str:
    return (RECORDED / f"{name}.output.txt").read_text()


def by_name(documents: Sequence[dict[str, Any]]) -> Mapping[tuple[str, str, str], dict[str, Any]]:
    """Helm prints objects in the order in which it installs them."""
    keys = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in documents]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, documents, strict=True))


@pytest.mark.parametrize("name", RENDERED)
def test_the_renderer_gives_what_helm_gave(name: str) -> None:
    assert by_name(recorded().objects(values_of(name))) == by_name(objects_in(output_of(name)))


def test_the_check_of_values_refuses_what_helm_refused_and_nothing_else() -> None:
    schema = schema_of(recorded())
    said = dict.fromkeys(re.findall(r"^- ([\w.()]+): (.*)$", output_of("refused"), re.MULTILINE))
    root = [path if path.startswith("(root)") else f"(root).{path}" for path, _ in said]
    # Helm names the object in which a property is too much or missing.
    parents = [re.search(r"Additional property (\w+)|^(\w+) is required", text) for _, text in said]
    helms = [
        f"{path}.{found[1] or found[2]}" if found else path for path, found in zip(root, parents, strict=True)
    ]
    assert sorted(set(refused(schema, values_of("refused")))) == sorted(set(helms))
    for name in RENDERED:
        assert list(refused(schema, values_of(name))) == []


def test_charts_use_only_what_the_recording_covers() -> None:
    covered = words(recorded())
    for target, *options in (["sites"], [DOORS], [TARGET], ["sites", "--sharding", "x", "--namespaces", "a"]):
        assert words(chart(target, *options)) <= covered


def words(made: Chart) -> set[str]:
    """The keywords and functions of the templates."""
    actions = [
        re.sub(r'"[^"]*"', "", action)
        for path, text in made.files.items()
        if path.startswith("templates/")
        for action in re.findall(r"\{\{(.*?)\}\}", text, re.DOTALL)
        if "/*" not in action
    ]
    return {word for action in actions for word in re.findall(r"(?<![\w.$])[a-zA-Z]\w*", action)}


@pytest.mark.parametrize(
    "text", ["{{ if .a }}", "{{ end }}", "{{ lookup .a }}", "{{ .a .b }}", "{{ .a.b.c }}"]
)
def test_what_the_renderer_does_not_know_is_refused(text: str) -> None:
    with pytest.raises((TemplateError, ValueError)):
        Chart({"values.yaml": "a: 1", "templates/x.yaml": text}).texts()
    assert parse("{{ .a }}", {})


# --- with Helm itself ---------------------------------------------------------------------------------

CHARTS = [
    ("sites",),
    ("sites", "--sharding", "ring", "--namespaces", "shop"),
    (DOORS,),
    (TARGET,),
    ("tests.shipping.doors:with_certificates",),
]


@needs_helm
@pytest.mark.parametrize("options", CHARTS, ids=" ".join)
def test_helm_takes_the_chart_and_renders_what_the_renderer_does(
    options: Sequence[str], tmp_path: Path
) -> None:
    made = chart(*options)
    unpack(made.files, tmp_path)
    linted = subprocess.run(
        ["helm", "lint", "--strict", tmp_path], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout
    cases = [CASES[name] for name in RENDERED] if options == (TARGET,) else [{}]
    for values in cases:
        answer = helm(tmp_path, values, "--namespace", "elsewhere")
        assert answer.returncode == 0, answer.stderr
        assert by_name(objects_in(answer.stdout)) == by_name(made.objects(values, namespace="elsewhere"))


@needs_helm
def test_helm_takes_the_chart_as_a_part_of_another(tmp_path: Path) -> None:
    made = chart(DOORS)
    unpack(made.files, tmp_path / "charts" / "doors")
    about = {"apiVersion": "v2", "name": "around", "version": "1.0.0"}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(about))
    answer = helm(tmp_path, {"doors": {"replicas": 9}, "global": {"a": 1}})
    assert answer.returncode == 0, answer.stderr
    assert by_name(objects_in(answer.stdout)) == by_name(made.objects({"replicas": 9}))
