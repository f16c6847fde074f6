"""What `import reconcile` says where a user's own package has the name of one of its floors."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["informers", "workqueue"])
@pytest.mark.parametrize("kind", ["a module", "a package", "a folder"])
def test_a_foreign_package_that_shadows_one_of_ours_is_named_in_the_error(
    tmp_path: Path, name: str, kind: str
) -> None:
    mine = tmp_path / f"{name}.py" if kind == "a module" else tmp_path / name / "__init__.py"
    mine.parent.mkdir(exist_ok=True)
    if kind != "a folder":
        mine.touch()
    code = (sys.executable, "-c", "import reconcile")
    done = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True, check=False)
    if kind == "a folder":  # no package: Python looks on, and finds ours
        assert done.returncode == 0, done.stderr
        return
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError")
    assert str(mine) in last
    assert "rename yours" in last
