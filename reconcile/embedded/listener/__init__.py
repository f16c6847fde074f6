"""What a server that listens on a port needs: connections, certificates, a kubeconfig."""
