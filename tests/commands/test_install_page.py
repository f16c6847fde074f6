"""docs/how-to/install-an-operator.md, followed by the real kubectl."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from reconcile.commands.main import reconcile
from reconcile.testing.control_plane import embedded
from tests.docs.blocks import all_blocks, code

PAGE = "docs/how-to/install-an-operator.md"
INSTALL, UPGRADE, ROLL_BACK = (
    [line for line in block.commands if " apply " in line]
    for block in all_blocks()
    if block.page == PAGE and any(" apply " in line for line in block.commands)
)

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="this machine has no kubectl"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

Kubectl = Callable[..., str]


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two releases, of which the second has a further field in its definition."""
    monkeypatch.chdir(tmp_path)
    for release in ("1.0", "2.0"):
        image = f"registry.example.com/sites:{release}"
        made = CliRunner().invoke(
            reconcile, ["manifests", "sites", "--image", image, "--out", f"sites-{release}"]
        )
        assert made.exit_code == 0, made.output
    (definition,) = (tmp_path / "sites-2.0").glob("crd_*.yaml")
    newer = yaml.safe_load(definition.read_text())
    spec_of(newer)["colour"] = {"type": "string"}
    definition.write_text(yaml.safe_dump(newer))
    return tmp_path


def spec_of(definition: dict[str, Any]) -> dict[str, Any]:
    version = definition["spec"]["versions"][-1]
    properties: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return properties


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with embedded() as endpoint:
        environment = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(endpoint.kubeconfig),
        }

        def run(*arguments: str) -> str:
            done = subprocess.run(
                ["kubectl", *arguments],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=50,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run


def test_a_roll_back_restores_the_code_and_leaves_the_definition(releases: Path, kubectl: Kubectl) -> None:
    def image() -> str:
        path = "jsonpath={.spec.template.spec.containers[0].image}"
        return kubectl("get", "-n", "sites-system", "deployment", "sites", "-o", path)

    def fields() -> set[str]:
        return set(spec_of(yaml.safe_load(kubectl("get", "crd", "sites.example.com", "-o", "yaml"))))

    def follow(commands: list[str]) -> None:
        for command in commands:
            program, *arguments = command.split()
            assert program == "kubectl"
            kubectl(*arguments)

    follow(INSTALL)
    assert image() == "registry.example.com/sites:1.0"
    before = fields()
    follow(UPGRADE)
    assert image() == "registry.example.com/sites:2.0"
    assert fields() == before | {"colour"}
    follow(ROLL_BACK)
    assert image() == "registry.example.com/sites:1.0"
    assert fields() == before | {"colour"}


def test_the_overlay_changes_what_it_names_and_nothing_else(releases: Path, kubectl: Kubectl) -> None:
    (overlay,) = code(PAGE, "yaml")
    (releases / "production").mkdir()
    (releases / "production" / "kustomization.yaml").write_text(overlay)

    def built(folder: str) -> dict[tuple[str, str], Any]:
        documents = yaml.safe_load_all(kubectl("kustomize", folder))
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    base, changed = built("sites-1.0"), built("production")
    spec = base["Deployment", "sites"]["spec"]
    spec["replicas"] = 3
    (container,) = spec["template"]["spec"]["containers"]
    container["image"] = "mirror.example.org/sites:1.0"
    container["resources"]["limits"]["memory"] = "1Gi"
    assert changed == base
