"""What a pyproject.toml says of an operator, as catalogues take it."""

import pytest
import semver
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.version import Version

from reconcile.shipping.project import Maintainer, ProjectError, project_of, semantic_version

WHOLE = """
[project]
name = "shop-sites"
version = "1.2.0"
description = "Keeps
  sites"
keywords = ["web", "sites"]
license = "Apache-2.0"
authors = [{name = "Ann"}]
maintainers = [{name = "Bo", email = "bo@example.com"}, {name = "Cy"}]

[project.urls]
Homepage = "https://example.com"
Local = "file:///etc/passwd"

[tool.reconcile]
capabilities = "Seamless Upgrades"
categories = ["Networking"]
""".replace("Keeps\n  sites", "Keeps sites")


def test_a_project_is_read_from_its_tables() -> None:
    project = project_of(WHOLE, "sites")
    assert (project.name, project.title, project.version) == ("sites", "Sites", "1.2.0")
    assert (project.summary, project.keywords, project.license) == (
        "Keeps sites",
        ("web", "sites"),
        "Apache-2.0",
    )
    assert project.maintainers == [Maintainer("Bo", "bo@example.com")]
    assert project.publisher == "Bo"
    assert (project.capabilities, project.categories) == ("Seamless Upgrades", ("Networking",))


def test_links_that_are_not_of_the_web_are_left_out() -> None:
    assert project_of(WHOLE, "sites").links == {"Homepage": "https://example.com"}


def test_a_version_that_is_given_is_used_instead_of_that_of_the_project() -> None:
    assert project_of(WHOLE, "sites", "2.0.0-rc.1").version == "2.0.0-rc.1"


def test_an_operator_without_authors_is_given_out_under_its_own_name() -> None:
    assert project_of('[project]\nversion = "1.0.0"', "web-sites").publisher == "web-sites"


@pytest.mark.parametrize(
    ("version", "maturity", "prerelease"),
    [("0.3.1", "alpha", False), ("1.0.0", "stable", False), ("1.1.0-rc.1", "alpha", True)],
)
def test_maturity_follows_from_the_version(version: str, maturity: str, prerelease: bool) -> None:
    project = project_of("", "sites", version)
    assert (project.maturity, project.is_prerelease) == (maturity, prerelease)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[project", "pyproject.toml is not TOML"),
        ("[project]\ndynamic = ['version']", "there is no version: expected MAJOR.MINOR.PATCH"),
        ("[project]\nversion = '1.0.dev3'", "the version is '1.0.dev3': expected MAJOR.MINOR.PATCH"),
        ("project = 3", "[project]: expected a table"),
        ("[tool.reconcile]\ncapability = 'x'", "[tool.reconcile] has 'capability': expected capabilities"),
        ("[tool.reconcile]\ncapabilities = 'All'", "capabilities is 'All': expected one of Basic Install"),
        ("[project]\nversion = '1.0.0'\nkeywords = 'web'", "keywords: expected a list of strings"),
        ("[project]\nversion = '1.0.0'\nauthors = ['Ann']", "authors: expected a list of tables"),
    ],
)
def test_what_cannot_be_shipped_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ProjectError) as caught:
        project_of(text, "sites")
    assert message in str(caught.value)


NUMBERS = st.integers(0, 10**6)


@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["", "a", "b", "rc"]), NUMBERS)
def test_versions_of_python_keep_their_order(
    major: int, minor: int, patch: int, phase: str, number: int
) -> None:
    text = f"{major}.{minor}.{patch}" + (f"{phase}{number}" if phase else "")
    for other in (f"{major}.{minor}.{patch}", f"{major}.{minor}.{patch}b1", f"{major}.{minor}"):
        ours = semver.Version.parse(semantic_version(text)).compare(semantic_version(other))
        python = (Version(text) > Version(other)) - (Version(text) < Version(other))
        assert ours == python, (text, other)


@given(st.text("0123456789.-+abrc", max_size=12))
@example("0.0.0+.")
@example("01.2.3")
@example("1.2.3-01")
def test_each_version_is_refused_or_a_semantic_version(text: str) -> None:
    try:
        version = semantic_version(text)
    except ProjectError:
        assert not semver.Version.is_valid(text)
    else:
        assert semver.Version.is_valid(version)
        assert not semver.Version.is_valid(text) or version == text
