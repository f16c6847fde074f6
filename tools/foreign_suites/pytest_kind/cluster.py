"""What kr8s' suite asks of a kind cluster, answered by the server of $KUBECONFIG."""

import os
import shutil
import subprocess
from pathlib import Path


class KindCluster:
    """Neither made nor deleted: it is there."""

    def __init__(self, name: str, **_: object) -> None:
        self.name = name
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")
        self.kubeconfig_path = Path(os.environ["KUBECONFIG"])

    def create(self) -> None:
        """Do nothing."""

    def delete(self) -> None:
        """Do nothing."""

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl and return what it prints."""
        return subprocess.check_output([self.kubectl_path, *arguments], text=True)
