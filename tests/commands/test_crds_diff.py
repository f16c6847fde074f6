"""`reconcile crds --diff`: the definitions of classes compared with those of a cluster."""

import json
from pathlib import Path

import pytest

from reconcile.commands import main
from reconcile.testing.control_plane import ServerEndpoint
from tests.commands.gates import COLOUR, NAME, SECRET, gate, install, make, module
from tests.commands.helpers import ROOT


def diff(cluster: ServerEndpoint, name: str, *options: str) -> int:
    return main(["crds", name, "--diff", "--kubeconfig", str(cluster.kubeconfig), *options])


def test_a_definition_that_is_new_and_one_that_is_the_same_are_no_fault(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    name = module(folder, "same")
    assert diff(cluster, name) == 0
    assert capsys.readouterr().out == f"{NAME}: is new\n"
    install(cluster, name, capsys)
    assert diff(cluster, name) == 0
    assert capsys.readouterr().out == f"{NAME}, stored as v1: no changes\n"


def test_an_additive_change_is_shown_and_reads_no_object(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    install(cluster, module(folder, "before"), capsys)
    make(cluster, gate("a"))
    assert diff(cluster, module(folder, "after", fields=COLOUR)) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{NAME}, stored as v1: 1 change",
        "  + v1: spec.colour: is new",
    ]


def test_a_narrowing_change_is_refused_if_an_object_does_not_fit_and_no_value_is_shown(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    install(cluster, module(folder, "wide", fields=COLOUR), capsys)
    narrow = module(folder, "narrow", bound=", maximum=5")
    make(cluster, gate("plain", size=3))
    assert diff(cluster, narrow) == 0
    assert "1 object read, 0 would not fit" in capsys.readouterr().out
    make(cluster, gate("red", colour=SECRET), gate("big", size=9))
    assert diff(cluster, narrow) == 1
    out = capsys.readouterr().out
    assert "  - v1: spec.size: maximum is 5 and there was none (objects decide)" in out
    assert "  3 objects read, 2 would not fit" in out
    assert "    default/big: spec.size (a number): maximum is 5 and there was none" in out
    assert "    default/red: spec.colour (a string of 7 characters): is gone, so servers drop it" in out
    assert "  refused: 2 of 3 stored objects" in out
    assert SECRET not in out


def test_the_differences_are_json_too(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    install(cluster, module(folder, "wide_json", fields=COLOUR), capsys)
    make(cluster, gate("red", colour=SECRET))
    assert diff(cluster, module(folder, "narrow_json"), "--json") == 1
    out = capsys.readouterr().out
    (found,) = json.loads(out)
    assert (found["definition"], found["installed"], found["storedVersions"]) == (NAME, True, ["v1"])
    assert (found["read"], found["unfit"], found["misfits"][0]["object"]) == (1, 1, "default/red")
    assert found["changes"] == [
        {
            "version": "v1",
            "path": "spec.colour",
            "what": "is gone, so servers drop it",
            "effect": "narrowing",
            "proof": "objects",
        }
    ]
    assert found["refused"]
    assert SECRET not in out


def test_the_page_shows_what_is_printed(
    folder: Path, cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/how-to/two-versions-in-production.md").read_text()
    *shown, refused = page.partition("```text\n")[2].partition("```")[0].splitlines()
    install(cluster, module(folder, "page_before", fields=f'{COLOUR}    label: str = ""\n'), capsys)
    make(cluster, gate("a", colour="blue"), gate("b"))
    label = 'Annotated[str, Schema(pattern="^[a-z]*$")] = ""'
    after = module(folder, "page_after", fields=f"    label: {label}\n    owner: str | None = None\n")
    assert diff(cluster, after) == 1
    *printed, last = capsys.readouterr().out.splitlines()
    assert printed == shown
    assert last.startswith(refused.removesuffix("..."))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kubeconfig", "nowhere"], "give --diff too"),
        (["--diff", "--out", "x"], "--out and --diff were both given"),
        (["--diff", "--kubeconfig", "nowhere"], "name another with --kubeconfig"),
    ],
)
def test_options_that_do_not_go_together_are_one_line_with_status_2(
    folder: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crds", module(folder, "bad"), *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1
