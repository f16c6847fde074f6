"""Descriptions of the fields of built-in kinds, in Kubernetes' own words.

They are read from the source text of kubernetes_asyncio's models, so that none are in this repository.
Nothing of it is imported, and without it there are no descriptions.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_GETTER: Final = re.compile(
    r"    def (\w+)\(self\):\n"
    r'        """Gets the \w+ of this \w+\.[^\n]*\n\n'
    r"        ((?:(?!\n\n|:return).)+?)  # noqa: E501\n",
    re.DOTALL,
)
_NAMES: Final = re.compile(r"attribute_map = \{(.*?)\}", re.DOTALL)
_NAME: Final = re.compile(r"'(\w+)': '([^']+)'")
_WORDS: Final = ((re.compile(r"(.)([A-Z][a-z]+)"), r"\1_\2"), (re.compile(r"([a-z0-9])([A-Z])"), r"\1_\2"))


@cache
def field_descriptions(type_name: str) -> Mapping[str, str]:
    """The known descriptions of the fields of a type such as `V1PodSpec`."""
    folder = _models()
    path = None if folder is None else folder / f"{_module(type_name)}.py"
    if path is None or not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    found = _NAMES.search(text)
    names = dict(_NAME.findall(found[1])) if found else {}
    return {names.get(name, name): description for name, description in _GETTER.findall(text)}


@cache
def _models() -> Path | None:
    spec = find_spec("kubernetes_asyncio")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "client" / "models"


def _module(type_name: str) -> str:
    for pattern, spaced in _WORDS:
        type_name = pattern.sub(spaced, type_name)
    return type_name.lower()
