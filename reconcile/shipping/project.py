"""What the project of an operator says of itself in its pyproject.toml. Pure functions."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from reconcile.shipping.changes import Change

CAPABILITIES: Final = (
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
)
"""The levels of an operator, as OperatorHub and Artifact Hub know them."""
TABLE: Final = "tool.reconcile"
_KEYS: Final = ("capabilities", "categories", "display-name", "provider")
_PYTHON_VERSION: Final = re.compile(
    r"(?P<release>\d+(\.\d+){0,2})((?P<phase>a|b|rc)(?P<number>\d+))?(\+(?P<build>[a-z0-9]+(\.[a-z0-9]+)*))?"
)
_NUMBER: Final = r"(0|[1-9]\d*)"
_PART: Final = r"(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_PHASES: Final = {"a": "alpha", "b": "beta", "rc": "rc"}


class ProjectError(ValueError):
    """A pyproject.toml says something that cannot be shipped; the message says what was expected."""


@frozen
class Maintainer:
    name: str
    email: str


@frozen
class Project:
    """What catalogues show of an operator and of one version of it."""

    name: str
    version: str
    """A semantic version."""
    summary: str = ""
    display_name: str = ""
    """Empty: made from the name."""
    provider: str = ""
    """Who gives the operator out; empty: the first maintainer, else the name."""
    keywords: Sequence[str] = ()
    maintainers: Sequence[Maintainer] = ()
    links: Mapping[str, str] = field(factory=dict)
    license: str = ""
    """An SPDX expression."""
    capabilities: str = CAPABILITIES[0]
    categories: Sequence[str] = ()
    changes: Sequence[Change] = ()
    """What this version changes."""

    @property
    def title(self) -> str:
        return self.display_name or self.name.replace("-", " ").title()

    @property
    def publisher(self) -> str:
        return self.provider or (self.maintainers[0].name if self.maintainers else self.name)

    @property
    def is_prerelease(self) -> bool:
        return "-" in self.version.partition("+")[0]

    @property
    def maturity(self) -> str:
        """`stable` from 1.0.0 on, `alpha` before and for pre-releases."""
        return "alpha" if self.is_prerelease or self.version.startswith("0.") else "stable"


def project_of(pyproject: str, name: str, version: str = "") -> Project:
    """The project of a pyproject.toml for an operator `name`; `version` is used instead of its own.

    Raises ProjectError, also where it has no version that is written there.
    """
    try:
        content = tomllib.loads(pyproject)
    except tomllib.TOMLDecodeError as error:
        raise ProjectError(f"pyproject.toml is not TOML: {error}") from None
    facts, own = _table(content, "project"), _table(content, TABLE)
    if unknown := sorted(set(own) - set(_KEYS)):
        raise ProjectError(f"[{TABLE}] has {unknown[0]!r}: expected {', '.join(_KEYS)}")
    capabilities = _text(own, "capabilities") or CAPABILITIES[0]
    if capabilities not in CAPABILITIES:
        raise ProjectError(
            f"[{TABLE}] capabilities is {capabilities!r}: expected one of {', '.join(CAPABILITIES)}"
        )
    return Project(
        name=name,
        version=semantic_version(version or _text(facts, "version")),
        summary=_text(facts, "description"),
        display_name=_text(own, "display-name"),
        provider=_text(own, "provider"),
        keywords=_texts(facts, "keywords"),
        maintainers=_maintainers(facts),
        links={link: url for link, url in _table(facts, "urls").items() if _is_link(url)},
        license=_text(facts, "license"),
        capabilities=capabilities,
        categories=_texts(own, "categories"),
    )


def semantic_version(text: str) -> str:
    """A version of Python, such as 1.2rc1, or a semantic one, as semantic version. Raises ProjectError."""
    if _SEMANTIC_VERSION.fullmatch(text):
        return text
    python = _PYTHON_VERSION.fullmatch(text)
    if python is None:
        found = f"the version is {text!r}" if text else "there is no version"
        raise ProjectError(f"{found}: expected MAJOR.MINOR.PATCH, such as 1.2.0 or 1.2.0-rc.1")
    numbers = [str(int(number)) for number in python["release"].split(".")]
    release = ".".join([*numbers, "0", "0"][:3])
    phase = f"-{_PHASES[python['phase']]}.{int(python['number'])}" if python["phase"] else ""
    return f"{release}{phase}{'+' + python['build'] if python['build'] else ''}"


def _maintainers(facts: Mapping[str, Any]) -> Sequence[Maintainer]:
    """Those with a name and an address, which catalogues ask for; the authors if there are none."""
    for key in ("maintainers", "authors"):
        people = facts.get(key) or []
        if not isinstance(people, list) or not all(isinstance(person, dict) for person in people):
            raise ProjectError(f"[project] {key}: expected a list of tables with name and email")
        found = [Maintainer(_text(person, "name"), _text(person, "email")) for person in people]
        if complete := [person for person in found if person.name and person.email]:
            return complete
    return ()


def _is_link(url: object) -> bool:
    return isinstance(url, str) and url.startswith(("https://", "http://"))


def _table(content: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    table: Any = content
    for name in path.split("."):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ProjectError(f"[{path}]: expected a table")
    return dict(table)


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    return " ".join(value.split()) if isinstance(value, str) else ""


def _texts(table: Mapping[str, Any], key: str) -> Sequence[str]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ProjectError(f"{key}: expected a list of strings")
    return tuple(values)
