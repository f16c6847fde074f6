"""Objects as the text of files."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import yaml

Document: TypeAlias = dict[str, Any]
"""An object as JSON."""


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(*objects: Document) -> str:
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)


def list_as_yaml(values: Sequence[Document]) -> str:
    """One list, as the annotations that hold YAML want it."""
    return yaml.dump(list(values), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)


def json_list(objects: Sequence[Document]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2)


def file_of(definition: Document) -> str:
    """The name of a file for a CustomResourceDefinition."""
    return f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml"
