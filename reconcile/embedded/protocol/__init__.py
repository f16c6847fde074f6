"""What all parts of the server share: failures, metadata, and what a request asks for."""

__all__: list[str] = []
