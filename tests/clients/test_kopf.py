"""kopf, in a process of its own, as its users run it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightkube
import pytest
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.events_v1 import Event
from lightkube.types import PatchType

from tests.clients.gadgets import gadget, gadget_definition

GROUP = "kopf.example.com"
OPERATOR = Path(__file__).with_name("operator_of_gadgets.py")
Gadget = create_namespaced_resource(GROUP, "v1", "Gadget", "gadgets")


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[lightkube.Client]:
    settings = lightkube.KubeConfig.from_file(str(kubeconfig))
    with lightkube.Client(config=settings, field_manager="test", trust_env=False) as made:
        yield made


@pytest.fixture
def operator(kubeconfig: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", "default", str(OPERATOR)]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def define(client: lightkube.Client) -> None:
    crd = gadget_definition(GROUP)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] = True
    client.create(CustomResourceDefinition.from_dict(crd))
    client.wait(CustomResourceDefinition, f"gadgets.{GROUP}", for_conditions=["Established"])


def until(met: Callable[[], Any], process: "subprocess.Popen[str]") -> Any:
    deadline = time.monotonic() + 15
    while not (found := met()):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            assert process.stdout
            pytest.fail(process.stdout.read())
        time.sleep(0.05)
    return found


def test_an_operator_waits_for_its_kind_and_sees_its_objects_created_changed_and_deleted(
    client: lightkube.Client, operator: "subprocess.Popen[str]"
) -> None:
    def phase() -> Any:
        return (client.get(Gadget, "a", namespace="default").status or {}).get("phase")

    assert operator.stdout
    while "unresolved" not in operator.stdout.readline().lower():
        assert operator.poll() is None
    define(client)
    client.create(Gadget.from_dict(gadget(GROUP, "a", size=1)))
    until(lambda: phase() == "made-1", operator)
    assert client.get(Gadget, "a", namespace="default").metadata.finalizers
    client.patch(Gadget, "a", {"spec": {"size": 2}}, namespace="default", patch_type=PatchType.MERGE)
    until(lambda: phase() == "resized-2", operator)
    client.delete(Gadget, "a", namespace="default")
    until(lambda: gone(client), operator)
    until(lambda: any(event.reason == "Made" for event in client.list(Event, namespace="default")), operator)


def gone(client: lightkube.Client) -> bool:
    try:
        client.get(Gadget, "a", namespace="default")
    except ApiError as error:
        return bool(error.status.code == 404)
    return False
