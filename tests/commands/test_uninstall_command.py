"""`reconcile uninstall` on an embedded server."""

from collections.abc import Iterator

import anyio
import pytest
from sites import Site, SiteSpec, sites

from informers.kubernetes import connect
from reconcile import ObjectMeta
from reconcile.client.client import Client
from reconcile.commands import main
from reconcile.models import definition_of
from reconcile.shipping.installation import Installation, documents_of
from reconcile.testing.control_plane import ServerEndpoint, embedded
from tests.commands.helpers import complaint

INSTALLED = Installation("shop", "shop", "shop-system", "shop:1", ("sites",), (sites,))


@pytest.fixture
def server() -> Iterator[ServerEndpoint]:
    with embedded() as endpoint:
        anyio.run(install, endpoint)
        yield endpoint


async def install(endpoint: ServerEndpoint) -> None:
    transport = await connect(endpoint.kubeconfig)
    client = Client(transport)
    files = documents_of(INSTALLED, [definition_of(Site)])
    documents = [document for file in files.values() for document in file]
    for document in sorted(documents, key=lambda one: one["kind"] != "Namespace"):
        await client.create(document)
    await client.create(Site(metadata=ObjectMeta("web", "shop-system"), spec=SiteSpec("nginx")))
    await transport.aclose()


def uninstall(server: ServerEndpoint, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["uninstall", *arguments, "--kubeconfig", str(server.kubeconfig)]) == 0
    return capsys.readouterr().out


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    said = uninstall(server, capsys, "shop", "--dry-run")
    assert said == uninstall(server, capsys, "shop", "--dry-run")
    first, second, *_, last = said.splitlines()
    assert first == "delete 1 sites.example.com and what they own, while the operator cleans up"
    assert second == "delete the definitions of sites.example.com"
    assert last == "the namespace shop-system stays"
    kept = uninstall(server, capsys, "shop", "--dry-run", "--keep-data")
    assert "delete 1 sites" not in kept
    assert "1 sites.example.com stay" in kept


def test_an_operator_is_uninstalled_and_a_second_time_there_is_nothing(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    said = uninstall(server, capsys, "shop", "--yes")
    assert said.splitlines()[-2:] == ["uninstalled shop-system/shop", "the namespace shop-system stays"]
    again = uninstall(server, capsys, "shop", "--yes")
    assert again == "nothing of shop-system/shop is to be uninstalled\nthe namespace shop-system stays\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("shop", "--keep-data", "--orphan"), "error: --keep-data and --orphan were both given: use one"),
        (("shop",), "error: nothing was uninstalled: add --yes, or see with --dry-run"),
        (("Not/A/Name", "--yes"), "error: 'Not/A/Name' is not the name of an operator"),
        (("shop", "-n", "a,b", "--yes"), "error: 'a,b' is not the name of a namespace"),
        (("shop", "--yes", "--kubeconfig", "none"), "error: the kubeconfig none does not exist"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capsys, "uninstall", *arguments).startswith(said)


def test_what_is_stuck_ends_with_status_1(server: ServerEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    anyio.run(hold, server)
    arguments = ["uninstall", "shop", "--yes", "--timeout", "1", "--kubeconfig", str(server.kubeconfig)]
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: not uninstalled within 1 s: 1 sites.example.com left (shop-system/web)")
    assert "example.org/other of another operator" in said


async def hold(endpoint: ServerEndpoint) -> None:
    transport = await connect(endpoint.kubeconfig)
    client = Client(transport)
    site = await client.get(Site, "web", "shop-system")
    await client.raw.merge(site, {"metadata": {"finalizers": ["example.org/other"]}}, guard={})
    await transport.aclose()
