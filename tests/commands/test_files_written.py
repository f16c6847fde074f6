"""What commands write: all of it, or an error that names the file."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconcile.commands import main
from reconcile.commands.problems import Problem, write_files

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Note, plural: notes}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {day: {type: string, default: 2026-02-30}}}}
"""


def test_all_files_are_written_before_their_names_are_printed(tmp_path: Path) -> None:
    code = f"""
        import sys
        from pathlib import Path
        from reconcile.commands.problems import write_files
        sys.stdout = open("/dev/full", "w", buffering=1)
        write_files(Path({str(tmp_path)!r}), {{"a": "1", "b/c": "2"}})
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (tmp_path / "a").read_text() + (tmp_path / "b" / "c").read_text() == "12"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(Problem, match=f"cannot write {tmp_path}/there: Is a directory"):
        write_files(tmp_path, {"there": ""})


def test_a_full_disk_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_text(DEFINITION)
    command = [sys.executable, "-m", "reconcile", "models", str(tmp_path / "crd.yaml")]
    out = subprocess.run([*command, "--out", "/dev/full"], capture_output=True, text=True, check=False)
    with Path("/dev/full").open("w") as full:
        printed = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (out.returncode, out.stderr) == (2, "error: cannot write /dev/full: No space left on device\n")
    expected = "error: the output cannot be read or written: No space left on device\n"
    assert (printed.returncode, printed.stderr) == (2, expected)


def test_text_that_looks_like_a_day_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "crd.yaml").write_text(DEFINITION)
    assert main(["models", str(tmp_path / "crd.yaml")]) == 0
    assert 'day: str = "2026-02-30"' in capsys.readouterr().out
