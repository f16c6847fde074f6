"""YAML 1.1 as the real server reads it, except that a time stays the text that it was."""

from typing import Any

import yaml

YamlError = yaml.YAMLError


class _Loader(yaml.SafeLoader):
    """SafeLoader without times, which notes the keys that a mapping has twice."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            self.duplicates += [key for index, key in enumerate(keys) if key in keys[:index]]
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: bytes, duplicates: list[str] | None = None) -> Any:
    """The one document in `text`; `duplicates` receives doubled keys."""
    loader = _Loader(text)
    try:
        document = loader.get_single_data()
    finally:
        loader.dispose()
    if duplicates is not None:
        duplicates += loader.duplicates
    return document
