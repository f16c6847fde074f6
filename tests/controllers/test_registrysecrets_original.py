"""The control plans as Kubero's helm-operator did, flaw included."""

from collections.abc import Mapping, Sequence

from controllers.registrysecrets import KuberoPipeline, KuberoPipelineSpec
from controllers.registrysecrets.demo.original import RELEASE_TYPE, pipeline_of_release, plan_upgrade
from controllers.registrysecrets.models import PipelinePhase, PipelineRegistry
from reconcile import Key, ObjectMeta, Request
from reconcile.kinds import Secret

SOURCE = Secret(
    metadata=ObjectMeta("registry-login", "kubero"),
    data={".dockerconfigjson": "e30=", "username": "dQ==", "password": "cA=="},
)


def pipeline(mode: str) -> KuberoPipeline:
    registry = PipelineRegistry(create_secret=mode, host="h", username="u", password="p")
    phases = (PipelinePhase("test", enabled=True), PipelinePhase("production", enabled=True))
    return KuberoPipeline(
        metadata=ObjectMeta("shop", "kubero"), spec=KuberoPipelineSpec(registry=registry, phases=phases)
    )


def writes_after(mode: str, number: int) -> tuple[int, Mapping[Key, Secret], Sequence[Secret]]:
    """How many Secrets so many runs after the first write, and what stands then."""
    count = 0
    standing: dict[Key, Secret] = {}
    releases: list[Secret] = []
    for each in range(number + 1):
        upgrade = plan_upgrade(pipeline(mode), SOURCE, standing, releases)
        if upgrade is None:
            continue
        count += len(upgrade.write) if each else 0
        releases = [one for one in releases if one not in upgrade.delete]
        for secret in upgrade.write:
            if secret.type == RELEASE_TYPE:
                releases.append(secret)
            else:
                standing[Key(*secret.key)] = secret
    return count, standing, releases


def test_the_original_writes_the_copies_and_a_release_in_every_pass() -> None:
    count, _, releases = writes_after("copy", 20)
    assert count == 20 * 5
    assert sorted(int(one.name.rpartition(".v")[2]) for one in releases) == list(range(12, 22))


def test_the_original_settles_if_it_looks_nothing_up() -> None:
    assert writes_after("create", 20)[0] == 0
    assert writes_after("none", 20)[0] == 0


def test_the_originals_release_is_in_the_namespace_of_the_pipeline_and_names_it() -> None:
    _, _, (release,) = writes_after("copy", 0)
    assert (release.namespace, release.name) == ("kubero", "sh.helm.release.v1.shop.v1")
    assert pipeline_of_release(release) == [Request("kubero", "shop")]
    assert pipeline_of_release(SOURCE) == []


def test_the_original_overwrites_copies_with_a_default_when_the_source_is_gone() -> None:
    _, standing, releases = writes_after("copy", 0)
    upgrade = plan_upgrade(pipeline("copy"), None, standing, releases)
    assert upgrade.write[0].data == {".dockerconfigjson": "ZW1wdHk="}
