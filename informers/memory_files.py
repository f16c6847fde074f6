"""Content for libraries that read files alone; on Linux it is in no file system."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """A path to `content`, good while inside."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("reconcile")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
