"""What an image reference such as `ghcr.io/org/app:1` says."""

import re
from typing import Final

_ALPHANUMERIC = "[a-z0-9]+"
_PATH_PART = rf"{_ALPHANUMERIC}(?:(?:[._]|__|-+){_ALPHANUMERIC})*"
_HOST_PART = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE: Final = re.compile(
    rf"(?P<name>{_HOST}/{_PATH_PART}(?:/{_PATH_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>\S+))?",
    re.ASCII,
)
_DIGEST: Final = re.compile("sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_IDENTIFIER: Final = re.compile("[a-f0-9]{64}")
_LONGEST_NAME: Final = 255  # NameTotalLengthMax in distribution/reference


def image_tag(image: str) -> str:
    """The tag of an image, `latest` if it has neither tag nor digest; empty if it is no reference."""
    found = None if _IDENTIFIER.fullmatch(image) else _REFERENCE.fullmatch(_with_domain(image))
    if found is None or len(found["name"]) > _LONGEST_NAME:
        return ""
    if found["digest"] is not None and not _DIGEST.fullmatch(found["digest"]):
        return ""
    return found["tag"] or ("" if found["digest"] else "latest")


def _with_domain(image: str) -> str:
    """The image with the domain that a short name leaves out."""
    first, slash, _ = image.partition("/")
    is_domain = slash and (set(first) & set(".:") or first == "localhost" or first.lower() != first)
    return image if is_domain else f"docker.io/{image}"
