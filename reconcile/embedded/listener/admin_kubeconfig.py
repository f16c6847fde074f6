"""Writes a kubeconfig for an embedded server to a file of its own.

The user's `~/.kube/config` is never read or written.
"""

import base64
import contextlib
import os
import tempfile
from pathlib import Path

import msgspec

CONTEXT = "embedded"  # name of the context, the cluster and the user in the file

_MARK = "# Written by the embedded API server of reconcile-runtime, which overwrites it at its next start.\n"


class KubeconfigRefused(Exception):
    """The file may not be overwritten; the message says why."""


def render_kubeconfig(url: str, ca_pem: bytes | None, token: str | None) -> str:
    cluster = [("server", url)]
    if ca_pem is not None:
        cluster.append(("certificate-authority-data", base64.b64encode(ca_pem).decode()))
    user = [("token", token)] if token is not None else []
    return "".join(
        (
            _MARK,
            "apiVersion: v1\nkind: Config\n",
            f"current-context: {CONTEXT}\n",
            f"contexts:\n- name: {CONTEXT}\n  context:\n    cluster: {CONTEXT}\n    user: {CONTEXT}\n",
            f"clusters:\n- name: {CONTEXT}\n  cluster:\n",
            *(f"    {key}: {_quoted(value)}\n" for key, value in cluster),
            f"users:\n- name: {CONTEXT}\n  user:{'' if user else ' {}'}\n",
            *(f"    {key}: {_quoted(value)}\n" for key, value in user),
        )
    )


def _quoted(text: str) -> str:
    """JSON strings are YAML strings, whatever they contain."""
    return msgspec.json.encode(text).decode()


def check_kubeconfig_target(path: Path) -> None:
    """Raises KubeconfigRefused unless `path` is free or was written by an embedded server."""
    with contextlib.suppress(RuntimeError):  # no home directory: nothing of the user's to protect
        if path.resolve() == (Path.home() / ".kube" / "config").resolve():
            raise KubeconfigRefused(f"{path} is your own kubeconfig, which is never written")
    if not path.parent.is_dir():
        raise KubeconfigRefused(f"the folder {path.parent} does not exist")
    if path.is_dir():
        raise KubeconfigRefused(f"{path} is a folder")
    if path.exists() and not _is_ours(path):
        raise KubeconfigRefused(f"{path} exists and was not written by an embedded server")


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()


def write_kubeconfig(path: Path, url: str, ca_pem: bytes | None, token: str | None) -> None:
    """Write the kubeconfig of one server in one step, readable by its owner only.

    Raises KubeconfigRefused as `check_kubeconfig_target` does, and OSError if it cannot be written.
    """
    check_kubeconfig_target(path)
    text = render_kubeconfig(url, ca_pem, token)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:  # mkstemp made it 0600
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
