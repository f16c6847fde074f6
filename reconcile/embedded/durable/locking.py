"""One process at a time in a data folder."""

import contextlib
import os
import sys
from pathlib import Path

from reconcile.embedded.durable.files import LOCK, DataFault


class FolderLock:
    """Held until it is closed, or its process ends."""

    def __init__(self, folder: Path) -> None:
        """Raises DataFault if another process holds it, and OSError."""
        path = folder / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._descriptor)
        except OSError:
            holder = os.read(self._descriptor, 20).decode(errors="replace").strip()
            os.close(self._descriptor)
            named = f" (process {holder})" if holder.isdigit() else ""
            raise DataFault(
                f"another server{named} uses the data folder {folder}", "stop it, or choose another folder"
            ) from None
        # Only for that message, so a full disk is no reason not to start.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, str(os.getpid()).encode())

    def close(self) -> None:
        os.close(self._descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
