"""Objects as the text of files."""

import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import yaml

from informers.apimachinery.yaml_scalars import is_plain_text

Document: TypeAlias = dict[str, Any]
"""An object as JSON."""


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, _style_of(text))

    def represent_block(self, text: str) -> yaml.ScalarNode:
        if "\n" not in text:
            return self.represent_text(text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, "|")


class BlockText(str):
    """Text of several lines that people read, such as PromQL: YAML has it line by line."""


def _style_of(text: str) -> str | None:
    # PyYAML counts these among the ends of lines, and only this style keeps them apart.
    if _LINE_ENDS.search(text):
        return '"'
    # PyYAML leaves `08`, `1e3` and `y` without quotes, which kubectl and Helm then read as other values.
    return None if is_plain_text(text) else "'"


_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_Plain.add_representer(str, _Plain.represent_text)
_Plain.add_representer(BlockText, _Plain.represent_block)


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
