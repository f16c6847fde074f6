"""Operators on kopf that tests draft, and a folder to draft them in."""

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from reconcile.commands.main import reconcile

SITES: Final = str(Path(__file__).with_name("kopf_sites.py"))
_SPEC = {"type": "object", "properties": {"image": {"type": "string"}, "size": {"type": "integer"}}}
_STATUS = {"type": "object", "properties": {"ready": {"type": "integer"}}}
DEFINITION: Mapping[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
                },
            }
        ],
    },
}
_HELD = """
import kopf

@kopf.on.create("sites", labels={"tier": "web", "old": kopf.ABSENT})
def controller(spec, **_):
    '''Ends in a quote and a \\\\ and three: \"\"\" "'''
    for name in spec:
        kopf.register(cleanup, id=name)

@kopf.on.delete("sites", labels={"tier": "web", "old": kopf.ABSENT})
def reconcile_site(**_): ...

@kopf.on.delete("sites", labels={"tier": "web", "old": kopf.ABSENT})
def cleanup(**_): ...

kopf.on.resume("sites", id="one", labels={"tier": "web", "old": kopf.ABSENT})(lambda **_: None)

@kopf.daemon("sites", labels={"tier": "web", "old": kopf.ABSENT})
async def follow(**_): ...

@kopf.daemon("sites", labels={"tier": "web", "old": kopf.ABSENT})
async def listen(**_): ...
"""
_FLEET = """
import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "example.com/fleet"


@kopf.on.create("sites")
@kopf.on.update("backups")
def keep(**_): ...


@kopf.on.delete("backups")
@kopf.on.resume("sites")
def drop(**_): ...


@kopf.on.validate("backups")
def check(**_): ...


@kopf.on.event("configmaps", labels={"fleet": "yes"})
def follow(**_): ...


@kopf.on.event("pods")
def look(**_): ...


@kopf.index("pods", id="by-site")
def by_site(**_): ...


@kopf.on.create("secrets")
def hide(**_): ...
"""
MOVED: Final = ("sites-moved", SITES, "--crd", "crd.yaml")
HELD: Final = ("sites-held", "held.py", "--crd", "crd.yaml")
FLEET: Final = (
    *("fleet", "fleet_on_kopf.py", "--crd", "crd.yaml", "--crd", "backup.yaml", "--kind", "configmaps"),
)


def _backup() -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(DEFINITION))
    names = {"kind": "Backup", "plural": "backups", "singular": "backup", "listKind": "BackupList"}
    found["metadata"], found["spec"]["names"] = {"name": "backups.example.com"}, names
    return found


@contextmanager
def drafting(home: Path) -> Iterator[Callable[..., None]]:
    """A function that drafts into `home`, by the arguments of the command; packages there are importable.

    `home` has two definitions and the operators, and is the current folder only while one is drafted.
    """
    for name, text in (
        ("crd.yaml", yaml.safe_dump(dict(DEFINITION))),
        ("backup.yaml", yaml.safe_dump(_backup())),
        ("held.py", _HELD),
        ("fleet_on_kopf.py", _FLEET),
    ):
        (home / name).write_text(text)
    modules, path, packages = set(sys.modules), list(sys.path), ["_read_"]

    def draft(name: str, *arguments: str) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(home)
            patched.setattr("reconcile.commands.adopt_draft.wheel", lambda: None)
            done = CliRunner().invoke(reconcile, ["adopt", "kopf", "draft", name, *arguments])
        assert done.exit_code == 0, done.exception
        assert "is not a valid" not in done.output
        packages.append(name.replace("-", "_"))
        sys.path.insert(0, str(home / name))

    yield draft
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(tuple(packages)):
            del sys.modules[name]
