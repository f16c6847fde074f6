"""Records what Helm makes of a chart: `python -m tests.shipping.record_charts`, with `helm` on the PATH.

The chart is recorded too, so the recording says what the renderer must do whatever charts become later.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.shipping.charts import chart

RECORDED = Path(__file__).parent / "recorded"
TARGET = "tests.shipping.doors:served_over_tls"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
CASES: Mapping[str, Mapping[str, Any]] = {
    "defaults": {},
    "everything": {
        "namespace": "ops",
        "namespaces": ["shop", "blog"],
        "image": {
            "repository": "r.example.com:5000/doors",
            "tag": "1.0",
            "digest": DIGEST,
            "pullPolicy": "Always",
            "pullSecrets": [{"name": "login"}],
        },
        "replicas": 11,
        "sharding": {"enabled": True, "name": "ring"},
        "logLevel": "debug",
        "extraEnv": [
            {"name": "QUOTED", "value": 'it\'s "so": {{ .Values }} # yes\nand on'},
            {"name": "NUMBER", "value": "1"},
        ],
        "extraVolumes": [{"name": "pages", "secret": {"secretName": "pages"}}],
        "extraVolumeMounts": [{"name": "pages", "mountPath": "/certificates/pages", "readOnly": True}],
        "resources": {"limits": {"memory": "1Gi", "cpu": 2}},
        "podAnnotations": {"example.com/a": "true"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"x": [{"y": [1, 2]}, []]}},
        "webhooks": {"certificates": "cert-manager", "issuer": {"name": "ca", "kind": "ClusterIssuer"}},
        "monitoring": {
            "enabled": True,
            "monitor": "PodMonitor",
            "interval": "7s",
            "labels": {"team": "a"},
            "runbooks": "https://example.com/runbooks",
        },
    },
    "monitored": {
        "monitoring": {
            "enabled": True,
            "reader": {"name": "prometheus", "namespace": "watch"},
            "tlsConfig": {"serverName": "doors"},
        }
    },
    "little": {
        "namespace": "",
        "crds": {"install": False},
        "resources": {},
        "image": {"tag": ""},
        "replicas": 0,
    },
    "refused": {
        "replicas": "3",
        "namespace": "Ops",
        "namespaces": ["a,b", "a,b"],
        "misspelt": 1,
        "image": {"tag": "a b", "digest": "1", "pullPolicy": "x", "pullSecrets": [{}]},
        "tolerations": [{"kye": "a"}],
        "extraEnv": [{"value": "1"}],
        "logLevel": "trace",
        "sharding": {"enabled": "yes", "name": ""},
        "monitoring": {"labels": {"a": 1}, "interval": "often"},
    },
}


def helm(folder: Path, values: Mapping[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """`helm template` of a chart with these values."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        command = ["helm", "template", "web", str(folder), "--values", file.name, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def unpack(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def main() -> None:
    shutil.rmtree(RECORDED, ignore_errors=True)
    unpack(chart(TARGET).files, RECORDED / "chart")
    for name, values in CASES.items():
        answer = helm(RECORDED / "chart", values)
        (RECORDED / f"{name}.values.yaml").write_text(yaml.safe_dump(dict(values), sort_keys=False))
        (RECORDED / f"{name}.output.txt").write_text(answer.stdout or answer.stderr)
    version = subprocess.run(["helm", "version", "--short"], capture_output=True, text=True, check=True)
    (RECORDED / "version.txt").write_text(version.stdout)


if __name__ == "__main__":
    main()
