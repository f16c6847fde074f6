"""Charts and kustomize bases as `reconcile manifests` makes them."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from click.testing import CliRunner

from reconcile.commands import manifests_command
from reconcile.commands.main import reconcile
from reconcile.shipping.uninstall_job import uninstall_documents
from tests.helpers.chart_renderer import Chart, is_hook

Document = dict[str, Any]
DOORS = "tests.shipping.doors:manager"
KEEP = "helm.sh/resource-policy"


@cache
def chart(target: str, *options: str) -> Chart:
    with tempfile.TemporaryDirectory() as folder:
        result = CliRunner().invoke(reconcile, ["manifests", target, "--helm", folder, *options])
        assert result.exit_code == 0, result.output
        made = Chart.read(Path(folder))
    return Chart({path: text for path, text in made.files.items() if path != ".reconcile-chart.json"})


@cache
def base(target: str, *options: str) -> Sequence[Document]:
    result = CliRunner().invoke(reconcile, ["manifests", target, "--json", *options])
    assert result.exit_code == 0, result.output
    items: Sequence[Document] = json.loads(result.output)["items"]
    return items


def schema_of(made: Chart) -> Document:
    schema: Document = json.loads(made.files["values.schema.json"])
    return schema


def installed(documents: Sequence[Document]) -> Mapping[tuple[str, str, str], Document]:
    """What stays in the cluster, by kind and name; without the note to Helm that definitions stay."""
    found = {}
    for document in documents:
        if is_hook(document):
            continue
        metadata = dict(document["metadata"])
        if annotations := metadata.pop("annotations", None):
            others = {name: text for name, text in annotations.items() if name != KEEP}
            metadata |= {"annotations": others} if others else {}
        key = (document["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found
        found[key] = {**document, "metadata": metadata}
    return found


def changed(path: str, value: Any) -> Document:
    """Values with one at a path such as `image.tag`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def uninstalling(target: str, *options: str, keep_data: bool) -> Sequence[Document]:
    """The Job that uninstalls the operator which `reconcile manifests` describes, and its rights."""
    with patch.object(manifests_command, "documents_of", side_effect=manifests_command.documents_of) as seen:
        base.__wrapped__(target, *options)
    return uninstall_documents(seen.call_args.args[0], keep_data)


def hooks(documents: Sequence[Document], event: str) -> Sequence[Document]:
    """The objects that Helm makes at that event."""
    return [one for one in documents if one["metadata"].get("annotations", {}).get("helm.sh/hook") == event]


def text_of(documents: Sequence[Document]) -> str:
    return str(yaml.dump_all(documents, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
