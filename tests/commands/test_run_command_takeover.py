"""`reconcile run` beside another operator: a line says what was found; `--take-over`, `--dry-run` go on."""

import json
import textwrap
from pathlib import Path

import pytest

from reconcile.commands import main
from tests.commands.helpers import running

OPERATOR = """
import anyio

from reconcile import Client, Controller, Manager, ObjectMeta, Predecessor
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap, Lease

server = ApiServer()
transport = InProcessTransport(server)


async def set_up():
    client = Client(transport)
    now = client.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    await client.create(ConfigMap(metadata=ObjectMeta("one", "default", labels={"team": "a"})))
    await client.create(ConfigMap(metadata=ObjectMeta("two", "default")))
    lease = {"holderIdentity": "rival", "leaseDurationSeconds": 15, "renewTime": now}
    metadata = {"name": "rival-leader", "namespace": "default"}
    await client.create(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease}
    )


anyio.run(set_up)


async def keep(ctx):
    await ctx.client.raw.merge(ctx.object, {"data": {"kept": "yes"}})
    print("kept", ctx.object.name, flush=True)


RIVAL = Predecessor("Rival", leases=("rival-leader",))
settings = Controller(ConfigMap, keep, name="settings", predecessor=RIVAL)
manager = Manager(settings, transport=transport)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cautious_operator.py").write_text(textwrap.dedent(OPERATOR))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.rule("takeover-predecessor")
def test_a_run_beside_its_predecessor_ends_with_a_line_that_names_it(here: Path) -> None:
    with running("run", "cautious_operator:manager", home=here) as command:
        assert command.process.wait(timeout=30) == 2
        assert (
            "error: settings: Rival is active on configmaps: Lease default/rival-leader" in command.complaints
        )
        assert "--take-over" in command.complaints
        assert "kept" not in command.said


@pytest.mark.rule("takeover-selector")
def test_with_take_over_a_run_keeps_the_objects_of_its_selector(here: Path) -> None:
    flags = ("--take-over", "--selector", "team=a")
    with running("run", "cautious_operator:manager", *flags, home=here) as command:
        command.wait_for("kept one")
        command.seconds_to_end()
        assert "kept two" not in command.said


@pytest.mark.rule("takeover-shadow")
def test_a_shadow_run_logs_the_writes_that_it_would_send(here: Path) -> None:
    with running("run", "cautious_operator:manager", "--dry-run", home=here) as command:
        command.wait_for("kept two")
        command.wait_for_log("would write")
        lines = [json.loads(line) for line in command.complaints.splitlines()]
        told = [line["changes"] for line in lines if line["event"] == "would write"]
        assert ['.data: nothing -> {"kept":"yes"}'] in told


def test_a_bad_selector_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "worker-groups", "--selector", "a=b=c", "--embedded"]) == 2
    assert "--selector" in capsys.readouterr().err
