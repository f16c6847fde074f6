"""What the parts of a schema raise that no API server takes."""


class SchemaError(Exception):
    """A pattern or a rule that an API server would refuse; the text says why."""
