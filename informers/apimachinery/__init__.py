"""Rules of Kubernetes' own library (k8s.io/apimachinery) that clients and servers share, as pure functions.

Nothing here does I/O or imports the rest of the package, so the embedded server may take it as it is.
"""

__all__: list[str] = []
