"""YAML 1.1 as the real server reads it, except that a time stays the text that it was."""

from typing import Any

import yaml

YamlError = yaml.YAMLError


class _Loader(yaml.SafeLoader):
    """SafeLoader without times."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: bytes) -> Any:
    """The one document in `text`."""
    return yaml.load(text, Loader=_Loader)
