"""Manifests: the YAML or JSON text that describes an object."""

from collections.abc import Mapping
from typing import Any


def manifest_of(text: str) -> Mapping[str, Any]:
    """The one object that a text describes.

    A time stays the text that it is. Raises ValueError for a text that is no YAML, that does not hold
    exactly one object, that says one thing twice (of which YAML would silently take the last), or that
    has a member whose name YAML takes for something else (`on` is true).
    """
    import yaml

    try:
        found = [document for document in yaml.load_all(text, Loader=_loader()) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"this is no YAML: {error}") from None
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise ValueError(f"a manifest describes one object, and this text holds {len(found)} documents")
    manifest: Mapping[str, Any] = found[0]
    return manifest


_found: list[Any] = []


def _loader() -> Any:
    """YAML 1.1 as kubectl reads it; made at the first use, since importing yaml takes its time."""
    if not _found:
        _found.append(_make_loader())
    return _found[0]


def _make_loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Without times, and with each member of a mapping once."""

        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in base.yaml_implicit_resolvers.items()
        }

    def mapping(loader: Any, node: Any) -> Any:
        own = [name for name, _ in node.value if name.tag != "tag:yaml.org,2002:merge"]
        names = [loader.construct_object(name, deep=True) for name in own]
        odd = next((name for name in names if not isinstance(name, str)), None)
        if odd is not None:
            why = f"{odd!r} is no name of a member: write it in quotes"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} is said twice", node.start_mark)
        return yaml.SafeLoader.construct_mapping(loader, node, deep=True)

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader
