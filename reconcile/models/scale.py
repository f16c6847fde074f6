"""The scale contract: what a kind needs so that an autoscaler can size it."""

from typing import Any

from attrs import frozen

from reconcile.models.fields import ModelField, fields_by_wire, fields_of


@frozen
class Scale:
    """The paths of the scale subresource.

    `replicas` must be an integer with a default, because /scale answers 404 for an object without it;
    `status` the present number; `selector` a string in status, which autoscalers need to find the pods
    (`LabelSelector.text()` creates it).
    """

    replicas: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ".status.selector"


def check_scale(model: type[Any], scale: Scale) -> None:
    """Raise TypeError, with the line to add, if a model does not keep the scale contract."""
    try:
        _check_paths(model, scale)
    except NameError as error:
        problem = f"{error}: define the classes of its fields above it"
    except TypeError as error:
        problem = str(error)
    else:
        return
    raise TypeError(f"scale of {model.__name__}: {problem}")


def _check_paths(model: type[Any], scale: Scale) -> None:
    replicas = _field_at(model, scale.replicas, ".spec.", "replicas")
    _refuse_absence_around(model, scale.replicas)
    if replicas.type is not int:
        raise TypeError(f"{scale.replicas} is not an integer: make it `: int = 1`")
    if not isinstance(replicas.default, int):
        raise TypeError(
            f"{scale.replicas} has no default, and an object without it has no /scale: make it `: int = 1`"
        )
    if _field_at(model, scale.status, ".status.", "status").type is not int:
        raise TypeError(f"{scale.status} is not an integer: make it `: int = 0`")
    if _field_at(model, scale.selector, ".status.", "selector").type is not str:
        raise TypeError(f'{scale.selector} is not a string: make it `: str = ""`')


def _refuse_absence_around(model: type[Any], path: str) -> None:
    """The objects around the replicas must exist or be created by the server, which then sets the default."""
    here: Any = model
    around = ""
    for step in path[1:].split(".")[:-1]:
        field = fields_by_wire(here)[step]
        around, here = f"{around}.{step}", field.type
        needed = next((f.wire for f in fields_of(here) if f.needed), "")
        if not field.needed and (needed or field.default is None):
            why = f"needs {needed!r}" if needed else "is None by default"
            raise TypeError(
                f"{around} may be absent and {why}, so {path} may have no default: "
                f"make it `{step}: {here.__name__}`"
            )


def _field_at(model: type[Any], path: str, root: str, what: str) -> ModelField:
    if not path.startswith(root):
        raise TypeError(f"the {what} path is below {root[:-1]}, not {path!r}")
    found: ModelField | None = None
    here: Any = model
    for step in path[1:].split("."):
        found = fields_by_wire(here).get(step)
        if found is None:
            where = here.__name__ if isinstance(here, type) else here
            raise TypeError(f"{path} does not exist: {where} has no {step!r}")
        here = found.type
    assert found is not None  # a path has a step
    return found
