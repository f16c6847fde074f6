"""What a server on a port needs: connections, certificates, a kubeconfig."""

__all__: list[str] = []
