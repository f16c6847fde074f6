"""What a manager shows people: the status page, its stream, the life of one object."""

__all__: list[str] = []
