"""A wheel, made offline of the installed files, for images and CI without reconcile-runtime in an index."""

import base64
import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

DISTRIBUTION = "reconcile-runtime"
_PACKAGES = ("controllers", "informers", "reconcile", "workqueue")
_ABOUT = ("METADATA", "entry_points.txt")
_WHEEL = "Wheel-Version: 1.0\nGenerator: reconcile init\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel() -> tuple[str, bytes] | None:
    """Its file name and content; None if pip installed it from an index: then no URL is noted (PEP 610)."""
    try:
        installed = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return None
    if installed.read_text("direct_url.json") is None:
        return None
    stem = f"{DISTRIBUTION.replace('-', '_')}-{installed.version}"
    return f"{stem}-py3-none-any.whl", _zipped(installed, f"{stem}.dist-info")


def _zipped(installed: importlib.metadata.Distribution, about: str) -> bytes:
    records: list[str] = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(name)  # dated 1980, so that the same files make the same wheel
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            records.append(f"{name},sha256={digest},{len(content)}")

        for name, file in _files():
            put(name, file.read_bytes())
        for name in _ABOUT:
            put(f"{about}/{name}", (installed.read_text(name) or "").encode())
        put(f"{about}/WHEEL", _WHEEL.encode())
        records.append(f"{about}/RECORD,,")
        archive.writestr(zipfile.ZipInfo(f"{about}/RECORD"), "\n".join(records) + "\n")
    return buffer.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    root = Path(__file__).parents[2]
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(root).as_posix(), file
