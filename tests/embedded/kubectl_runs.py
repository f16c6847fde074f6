"""Runs the real kubectl against `reconcile apiserver`."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT.parent / "shared" / "samples"
KUBECTL = shutil.which("kubectl")

_NUMBERS = itertools.count(1)

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.demo.example.com
spec:
  group: demo.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing of which there can be several.
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, description: How large it is., maximum: 100}
              color: {type: string, default: red}
              replicas: {type: integer}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items:
                  type: object
                  properties:
                    type: {type: string}
                    status: {type: string}
"""

BUILT_INS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: debug}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: hunter2}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely}
spec:
  containers:
  - {name: main, image: busybox}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: nginx
        image: nginx:1
        env:
        - {name: A, value: "1"}
        - {name: B, value: "2"}
"""


def widget(name: str, size: int = 3, **labels: str) -> str:
    metadata = {"name": name, "labels": labels}
    manifest = {
        "apiVersion": "demo.example.com/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": {"size": size},
    }
    return json.dumps(manifest)


@frozen
class Kubectl:
    """kubectl with a home and a kubeconfig of its own, in one namespace."""

    environment: dict[str, str]
    namespace: str

    def run(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            input=given,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=30,
        )

    def command(self, *arguments: str) -> tuple[str, ...]:
        assert KUBECTL
        return (KUBECTL, f"--namespace={self.namespace}", *arguments)

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What it prints; a failure is one of the test."""
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def refused(self, *arguments: str, given: str | None = None) -> str:
        """What it complains about."""
        done = self.run(*arguments, given=given)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """The rows that it prints, by column."""
        header, *rows = self("get", *arguments).splitlines()
        starts = [found.start() for found in re.finditer(r"\S+(?: \S+)*", header)]
        spans = list(zip(starts, [*starts[1:], None], strict=True))
        return [{header[a:b].strip(): row[a:b].strip() for a, b in spans} for row in rows]

    def read(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where kubectl finds the server, which `reconcile apiserver` runs for this module."""
    home = tmp_path_factory.mktemp("home")
    kubeconfig = home / "embedded.kubeconfig"
    process = subprocess.Popen(
        (sys.executable, "-m", "reconcile", "apiserver", "--kubeconfig-out", str(kubeconfig)),
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout
    assert process.stdout.readline().startswith(b"API server on https://")
    found = {"HOME": str(home), "KUBECONFIG": str(kubeconfig), "PATH": os.environ["PATH"]}
    subprocess.run((str(KUBECTL), "apply", "-f", "-"), input=DEFINITION.encode(), env=found, check=True)
    yield found
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=5)


@pytest.fixture
def kubectl(environment: dict[str, str], request: pytest.FixtureRequest) -> Kubectl:
    readable = re.sub("[^a-z0-9]+", "-", request.node.name)[:40].strip("-")
    name = f"{readable}-{next(_NUMBERS)}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    Kubectl(environment, "default")("create", "-f", "-", given=json.dumps(namespace))
    return Kubectl(environment, name)
