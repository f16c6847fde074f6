"""Which cluster a transport talks to, and how it is found: as kubectl does, and in a pod by its account."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from attrs import frozen

from informers.loopback import is_loopback

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConfigurationProblem(Exception):
    """There is no usable connection to a cluster; the message is one line and says what to do."""


@frozen
class ClusterConnection:
    """Which cluster a transport talks to, for people to check before anything is written.

    `context` is the kubeconfig's name for it, or `in-cluster`; `namespace` the default one; `loopback`
    whether the server is on this machine.
    """

    context: str
    server: str
    namespace: str
    loopback: bool


def find_kubeconfig(
    kubeconfig: str | os.PathLike[str] | None,
    context: str | None,
    environment: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
) -> tuple[Path, ...] | Literal["in-cluster"]:
    """The files to read: the argument, else $KUBECONFIG, else the pod's own account, else ~/.kube/config.

    A `context` asks for a kubeconfig, so it rules out the pod's account. Files in $KUBECONFIG that do not
    exist are left out.
    """
    if kubeconfig is not None:
        path = Path(kubeconfig).expanduser()
        if not path.exists():
            raise ConfigurationProblem(f"the kubeconfig {path} does not exist")
        return (path,)
    if listed := environment.get("KUBECONFIG", ""):
        paths = tuple(Path(part).expanduser() for part in listed.split(os.pathsep) if part)
        existing = tuple(path for path in paths if path.exists())
        if not existing:
            raise ConfigurationProblem(f"KUBECONFIG is {listed}, and there is no such file")
        return existing
    pod = environment.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists()
    if pod and context is None:
        return "in-cluster"
    path = Path("~/.kube/config").expanduser()
    if not path.exists():
        raise ConfigurationProblem(
            f"no cluster is configured: there is no {path}, KUBECONFIG is not set, and this is not a pod"
        )
    return (path,)


def is_loopback_url(server: str) -> bool:
    """Whether the name of a URL's host alone means this machine; no name is looked up."""
    host = urlsplit(server).hostname or ""
    # RFC 6761 gives all names below localhost to this machine. Only a client may count on that: a server
    # that binds to such a name would ask the resolver.
    return is_loopback(host) or host.endswith(".localhost")


def without_user(url: str) -> str:
    """A URL for messages, without what stands before an `@` in its host, which may be a password."""
    scheme, slashes, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"
