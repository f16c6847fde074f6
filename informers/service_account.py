"""The account of the pod that this process runs in: a token that rotates, the cluster's CA, the namespace.

Where and how a pod finds them: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

import os
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from informers.cluster_connection import (
    SERVICE_ACCOUNT,
    ClusterConnection,
    ConfigurationProblem,
    is_loopback_url,
)
from informers.credentials import Credentials, Proof, one_line


@frozen
class ServiceAccount:
    """A `CredentialSource`: files that the kubelet replaces before the token in them ends."""

    folder: Path
    proxy: ClassVar[None] = None
    tls_server_name: ClassVar[None] = None
    verifies: ClassVar[bool] = True
    ages: ClassVar[bool] = True
    slow: ClassVar[bool] = False

    def read(self) -> Proof:
        """Token and CA as they are now. Raises OSError and ValueError."""
        token = (self.folder / "token").read_text().strip()
        if not token:
            raise ValueError(f"{self.folder / 'token'} is empty")
        return Proof(f"Bearer {token}", ((self.folder / "ca.crt").read_bytes(), None, None))

    async def look(self, refused: bool) -> Proof:
        """The files are in memory: reading them takes less than handing that to a thread."""
        return self.read()

    def close(self) -> None:
        """Nothing is ever in progress."""


def find_pod_connection(folder: Path = SERVICE_ACCOUNT) -> ClusterConnection:
    """The API server and the namespace of this pod. Raises ConfigurationProblem."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    try:
        if not host or not port:
            raise ValueError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set")
        namespace = (folder / "namespace").read_text().strip()
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        return ClusterConnection("in-cluster", server, namespace, is_loopback_url(server))
    except (OSError, ValueError) as error:
        raise _problem(error) from error


def load_in_cluster(folder: Path = SERVICE_ACCOUNT) -> tuple[ClusterConnection, Credentials]:
    """The connection and the credentials of this pod. Raises ConfigurationProblem."""
    connection, account = find_pod_connection(folder), ServiceAccount(folder)
    try:
        return connection, Credentials(account, account.read())
    except (OSError, ValueError) as error:
        raise _problem(error) from error


def _problem(error: Exception) -> ConfigurationProblem:
    return ConfigurationProblem(f"the pod's service account cannot be used: {one_line(error)}")
