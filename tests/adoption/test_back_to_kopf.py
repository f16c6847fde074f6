"""From kopf to an operator of ours and back again, with kopf itself in a process of its own."""

from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from reconcile import ObjectMeta
from reconcile.commands import main
from reconcile.models import definition_of
from reconcile.testing import ListeningServer, ManagerRunner, eventually
from tests.adoption.returned_sites import Site, sites
from tests.helpers.kopf_process import kopf

OPERATOR = "tests.adoption.returned_sites"
BACK = ("adopt", "kopf", "back", OPERATOR, "--yes")
PATIENCE = 40.0

pytestmark = pytest.mark.timeout(150)


async def test_kopf_goes_on_with_objects_that_were_handed_back_and_creates_none_again(
    api_server: ListeningServer,
    manager: ManagerRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(calls))

    def noted() -> list[str]:
        return sorted(calls.read_text().split("\n")[:-1]) if calls.exists() else []

    async with api_server.connect() as client:

        async def known_to_kopf() -> bool:
            found = await client.list(Site)
            return all(site.metadata.annotations for site in found)

        async def taken_over() -> bool:
            found = await client.list(Site)
            return all(
                site.metadata.finalizers == (sites.finalizer,) and not site.metadata.annotations
                for site in found
            )

        async def called(*expected: str) -> bool:
            return set(expected) <= set(noted())

        await client.apply(definition_of(Site))
        with kopf(api_server, tmp_path / "log", OPERATOR):
            await client.create(Site(metadata=ObjectMeta("a", "default")))
            await client.create(Site(metadata=ObjectMeta("b", "default")))
            await eventually(lambda: called("create a", "create b"), within=PATIENCE)
            await eventually(known_to_kopf, within=PATIENCE)
        async with manager(sites):
            await client.create(Site(metadata=ObjectMeta("made-meanwhile", "default")))
            await client.modify(Site, "b", "default", lambda found: found.replace(size=2))
            await eventually(taken_over, within=PATIENCE)
        calls.unlink()
        arguments = [*BACK, "--kubeconfig", str(api_server.kubeconfig)]
        assert await run_sync(main, arguments) == 0
        assert "3 handed back: kopf resumes it" in capsys.readouterr().out
        assert await run_sync(main, arguments) == 0
        assert capsys.readouterr().out.endswith("nothing is left to hand back\n")
        await client.create(Site(metadata=ObjectMeta("new", "default")))
        with kopf(api_server, tmp_path / "log", OPERATOR):
            await eventually(
                lambda: called("resume a", "resume b", "resume made-meanwhile", "create new"), within=PATIENCE
            )
            await client.modify(Site, "a", "default", lambda found: found.replace(size=3))
            await client.delete(await client.get(Site, "b", "default"))
            await eventually(lambda: called("update a", "delete b"), within=PATIENCE)
    assert noted() == [
        "create new",
        "delete b",
        "resume a",
        "resume b",
        "resume made-meanwhile",
        "update a",
    ]
