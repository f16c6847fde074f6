"""Rules of k8s.io/apimachinery that clients and servers share: pure functions that import nothing of ours."""

__all__: list[str] = []
