"""A draft of several kinds: of definitions, and of Kubernetes."""

import importlib
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from reconcile import Manager
from reconcile.commands.main import reconcile
from tests.adoption.drafted_operators import FLEET, drafting
from tests.commands.helpers import complaint

DRAFT = ("adopt", "kopf", "draft")
PLACES = {
    "configure": "`configure` in `fleet/__main__.py`",
    "keep": "`keep` in `fleet/reconciler.py`, `keep` in `fleet/backup_reconciler.py`",
    "drop": "`drop` in `fleet/reconciler.py`, `drop` in `fleet/backup_reconciler.py`",
    "check": "`check` in `fleet/backup_admission.py`",
    "follow": "`follow` in `fleet/configmap_reconciler.py`",
    "look": "`owns=[Pod]` of the controller, or `watches=` where they are not its children",
    "by_site": "`by_site` in `fleet/reconciler.py`",
    "hide": "not drafted: it is for secrets",
}


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the draft `fleet`, what it was drafted from, and nothing else."""
    home = tmp_path_factory.mktemp("fleet")
    with drafting(home) as draft:
        draft(*FLEET)
        yield home


def test_each_kind_has_a_controller_of_one_manager(drafted: Path) -> None:
    manager = importlib.import_module("fleet").manager
    assert isinstance(manager, Manager)
    sites, backups, maps = manager.controllers
    assert [one.kind.__name__ for one in manager.controllers] == ["Site", "Backup", "ConfigMap"]
    assert [one.__name__ for one in sites.owns] == ["Pod"]
    assert list(sites.indexes) == ["by-site"]
    assert [*backups.owns, *maps.owns, *backups.indexes, *maps.indexes] == []
    assert sites.cleanup is None
    assert backups.cleanup is not None
    assert len(backups.admission) == 1
    assert (maps.operator, maps.selector) == ("example.com", "fleet=yes")
    predecessors = [one.predecessor for one in manager.controllers]
    assert [one.traces.finalizer for one in predecessors if one and one.traces] == ["example.com/fleet"] * 3
    assert [one.unwritten for one in predecessors if one] == [
        ("keep", "drop", "by_site"), ("keep", "drop", "check"), ("follow",),
    ]  # fmt: skip


def test_each_function_has_its_place_in_the_table(drafted: Path) -> None:
    lines = (drafted / "fleet" / "MOVING.md").read_text().splitlines()
    rows = dict(line.strip("| ").split(" | ", 1) for line in lines if line.startswith("| "))
    assert {name.split(",")[0]: here for name, here in rows.items()} == {"on kopf": "here", **PLACES}


@pytest.mark.parametrize("kind", ["", "_backup", "_configmap"])
async def test_the_tests_of_each_kind_pass(drafted: Path, kind: str) -> None:
    spec = spec_from_file_location("fleet_tests", drafted / f"fleet/tests/test_fleet{kind}.py")
    assert spec is not None
    assert spec.loader is not None
    tests = module_from_spec(spec)
    spec.loader.exec_module(tests)
    await tests.test_an_object_converges()
    await anyio.to_thread.run_sync(tests.test_it_survives_every_fault)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no kind was named: name definitions by --crd FILE"),
        (("--kind", "sites"), "--kind: sites is not a kind of Kubernetes that a class is known for: "),
        (
            ("--kind", "configmaps"),
            "ConfigMap is a kind of Kubernetes, and other operators may keep it too: ",
        ),
        (("--kind", "pods", "--crd", "crd.yaml", "--kind", "Pod"), "two of the kinds are named Pod: "),
        (("--kind", "services", "--operator", "example.com"), "no handler is for services: "),
    ],
)
def test_what_cannot_be_drafted_is_said_in_one_line(
    drafted: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(drafted)
    assert complaint(capsys, *DRAFT, "other", "fleet_on_kopf.py", *arguments).startswith(f"error: {said}")
    assert not (drafted / "other").exists()


def test_an_operator_of_kinds_of_kubernetes_alone_is_drafted_too(
    drafted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(drafted)
    monkeypatch.setattr("reconcile.commands.adopt_draft.wheel", lambda: None)
    arguments = [*DRAFT, "maps", "fleet_on_kopf.py", "--kind", "ConfigMap", "--operator", "maps.example.com"]
    done = CliRunner().invoke(reconcile, arguments)
    assert done.exit_code == 0, done.exception
    monkeypatch.syspath_prepend(str(drafted / "maps"))
    (controller,) = importlib.import_module("maps").manager.controllers
    assert controller.operator == "maps.example.com"
    drafts = (path for path in (drafted / "maps").rglob("*") if path.is_file() and path.suffix != ".pyc")
    texts = [path.read_text() for path in drafts]
    assert not any("models" in text for text in texts)
