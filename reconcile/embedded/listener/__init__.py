"""What a server that listens on a port needs: connections, certificates, a kubeconfig."""

__all__: list[str] = []
