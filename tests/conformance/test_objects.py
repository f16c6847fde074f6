"""What a real API server made of built-in objects, and what the embedded one makes of them.

The recorded cases are played over HTTP and in process. What differs is listed with its reason in
docs/reference/recorded-objects.md, and must leave that page when it no longer does.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.in_process import in_process_client
from tests.conformance.served import HERE, PAGE, TOKEN, load_script, serving_scripts

REPLAY = load_script("objects/replay.py")
CASES = HERE / "objects" / "cases"
KINDS = sorted(path.stem for path in CASES.glob("*.json"))
LEAST_OF_RARE = 0.9

Differences = dict[str, dict[str, str]]
"""The reasons, by kind and case."""


def _listed() -> Differences:
    rows = re.findall(r"^\| `([\w.]+)` \| `([\w.-]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    found: Differences = {}
    for kind, case, reason in rows:
        found.setdefault(kind, {})[case] = reason
    return found


LISTED = _listed()


@pytest.fixture(scope="session")
def http_client() -> Iterator[Any]:
    with serving_scripts() as url:
        yield REPLAY.Client(url, TOKEN, insecure=False)


@pytest.fixture(scope="session")
def client_in_process() -> Iterator[Any]:
    with in_process_client(REPLAY) as client:
        yield client()


def _differing(client: Any, name: str) -> dict[str, list[str]]:
    (kind,) = REPLAY.load(CASES, name, "*", "rare")
    kind.play(client, record=False, skip=set())
    failures: dict[str, list[str]] = kind.failures
    return failures


def _check(client: Any, name: str) -> None:
    found = _differing(client, name)
    listed = LISTED.get(name, {})
    new = {case: differences for case, differences in found.items() if case not in listed}
    assert not new, "\n".join(f"{case}: {'; '.join(differences[:6])}" for case, differences in new.items())
    assert not listed.keys() - found.keys(), "these no longer differ"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", KINDS)
def test_the_server_makes_of_objects_what_a_real_one_makes(name: str, http_client: Any) -> None:
    _check(http_client, name)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", KINDS)
def test_in_process_the_server_makes_of_objects_what_a_real_one_makes(
    name: str, client_in_process: Any
) -> None:
    _check(client_in_process, name)


def test_only_rare_cases_differ_and_at_most_one_in_ten() -> None:
    levels = {
        (name, case["name"]): case["level"]
        for name in KINDS
        for (kind,) in [REPLAY.load(CASES, name, "*", "rare")]
        for case in kind.cases
    }
    differing = [levels[name, case] for name, cases in LISTED.items() for case in cases]
    assert set(differing) <= {"rare"}
    assert len(differing) <= (1 - LEAST_OF_RARE) * sum(level == "rare" for level in levels.values())
