"""Writes files atomically, also if several processes write the same file."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file at once. Raises OSError, and leaves nothing behind then."""
    # A name of its own: workers of pytest-xdist may write the same file.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
