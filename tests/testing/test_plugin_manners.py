"""An installed plugin leaves alone what does not use it, and gets along with what others installed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reconcile.testing

CONFTEST = """
import asyncio, datetime, json, os, pathlib, random, sys, time
import pytest

SEEN = {}

def look():
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    before, began = time.monotonic(), loop and loop.time()
    return {
        "loop": loop and type(loop).__module__ + "." + type(loop).__qualname__,
        "real": loop is None or abs(loop.time() - began - (time.monotonic() - before)) < 1,
        "clocks": [str(time.sleep), str(time.time), random.random.__qualname__, str(datetime.datetime)],
        "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    }

@pytest.fixture
def note(request):
    def note():
        SEEN[request.node.nodeid] = look()
    return note

@pytest.fixture
def cluster():
    return "a fixture of their own"

@pytest.fixture
def clock():
    return "another"

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        SEEN.setdefault(item.nodeid, {}).update(outcome=report.outcome, item=type(item).__qualname__)

def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    counts = {name: len(found) for name, found in reporter.stats.items() if name}
    told = {"tests": SEEN, "counts": counts, "policy": type(asyncio.get_event_loop_policy()).__qualname__}
    pathlib.Path(os.environ["TOLD"]).write_text(json.dumps(told))
"""

TESTS = """
import asyncio, time
import pytest
{mark}

async def test_async(note):
    await asyncio.sleep(0)
    note()

async def test_takes_real_time(note):
    before = time.monotonic()
    await asyncio.sleep(0.02)
    assert time.monotonic() - before > 0.015
    note()

async def test_has_fixtures_of_the_same_names(note, cluster, clock):
    assert (cluster, clock) == ("a fixture of their own", "another")
    note()

@pytest.mark.parametrize("seed", [1, 2])
async def test_has_seeds(note, seed):
    note()

async def test_fails():
    assert 1 == 2
"""

PLAIN = """
def test_plain(note):
    note()

class TestInAClass:
    def test_method(self, note):
        note()
"""

TRIO = """
import pytest

@pytest.mark.anyio
async def test_on_any_backend(note, anyio_backend_name):
    note()
"""

SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
AUTO = (*SCOPE, "-o", "asyncio_mode=auto")
STRICT = (*SCOPE, "-o", "asyncio_mode=strict")
SUITES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "pytest-asyncio, strict": ("pytestmark = pytest.mark.asyncio", STRICT, ""),
    "pytest-asyncio, auto": ("", AUTO, ""),
    "anyio": (
        'pytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend(): return "asyncio"',
        ("-p", "no:asyncio"),
        TRIO,
    ),
}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.rule("kit-manners")
def test_another_suite_runs_the_same_with_and_without_the_plugin(tmp_path: Path, suite: str) -> None:
    mark, options, more = SUITES[suite]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_async.py").write_text(TESTS.format(mark=mark))
    (tmp_path / "test_plain.py").write_text(PLAIN)
    (tmp_path / "test_more.py").write_text(more)
    without = told(tmp_path, *options, "-p", "no:reconcile")
    with_it = told(tmp_path, *options)

    assert without["counts"] == {"passed": 7 + 2 * bool(more), "failed": 1}
    here = {name for test in with_it["tests"].values() for name in test.pop("modules", ())}
    there = {name for test in without["tests"].values() for name in test.pop("modules", ())}
    assert with_it == without
    assert here - there == {"informers", "reconcile"}  # their faces alone


USERS = """
import asyncio, sys, time
import anyio
import pytest
{mark}

assert "informers.cache" not in sys.modules, "the runtime was imported before it was asked for"

{own}
async def test_theirs():
    before = time.monotonic()
    await anyio.sleep(0.02)
    assert time.monotonic() - before > 0.015

async def test_in_virtual_time(cluster, faults):
    from reconcile.testing import VirtualTimeLoop
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    await anyio.sleep(3000)

@pytest.fixture
def settings(cluster):
    return cluster.client.add({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "settings"}}}})

class TestInAClass:
    async def test_through_a_fixture_of_their_own(self, settings):
        assert self.name == "mine"
        await anyio.sleep(3000)

    name = "mine"

@pytest.mark.simulated(seed=9, limit_seconds=10_000)
async def test_marked():
    assert asyncio.get_running_loop().seed == 9
    await anyio.sleep(9000)

async def test_in_real_time(api_server):
    before = time.monotonic()
    async with api_server.connect() as client:
        assert api_server.namespace
    await anyio.sleep(0.02)
    assert time.monotonic() - before > 0.015
"""

REFUSED = """
import pytest
from hypothesis import given, strategies

@pytest.fixture
async def theirs():
    return 1

async def test_async_fixture(cluster, theirs):
    raise AssertionError("it ran")

@given(strategies.booleans())
async def test_hypothesis(cluster, flag):
    raise AssertionError("it ran")

async def test_compared(cluster):
    from reconcile import ObjectMeta
    from reconcile.kinds import ConfigMap
    one, other = (ConfigMap(metadata=ObjectMeta("c"), data={"a": text}) for text in "xy")
    assert one == other

async def test_waits(cluster):
    from reconcile.testing import eventually
    await eventually(lambda: False)

async def test_sleeps(cluster):
    import time
    time.sleep(1)
"""


@pytest.mark.parametrize("suite", [*SUITES, "no other plugin"])
@pytest.mark.rule("kit-virtual")
def test_tests_that_use_the_plugin_run_in_virtual_time_beside_any_other_plugin(
    tmp_path: Path, suite: str
) -> None:
    bare = ("", ("-p", "no:asyncio", "-p", "no:anyio"), "")
    mark, options, _ = SUITES.get(suite, bare)
    own = "@pytest.mark.skip" if suite == "no other plugin" else ""
    (tmp_path / "test_users.py").write_text(USERS.format(mark=mark, own=own))
    done = run(tmp_path, *options, "-W", "error")
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_tests_with_another_loop_are_refused_and_failures_show_the_line_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_refused.py").write_text(REFUSED)
    done = run(tmp_path, *AUTO)
    assert "fixture 'theirs' is async" in done.stdout
    assert "is run by hypothesis many times" in done.stdout
    assert "it ran" not in done.stdout
    assert ".data['a']: 'x' != 'y'" in done.stdout
    assert "did not hold within 30 s" in done.stdout
    assert "RealWorldError" in done.stdout
    assert "reconcile/testing/" not in done.stdout  # no frames of ours, between what failed and the reader


INSTALLED = {
    "METADATA": "Metadata-Version: 2.1\nName: reconcile-runtime\nVersion: 0\n",
    "RECORD": "informers/__init__.py,,\nreconcile/__init__.py,,\nunits.py,,\n",
    "entry_points.txt": "[pytest11]\nreconcile = reconcile.testing.plugin\n",
}

LOADERS = """
def test_loaders():
    import informers.cache, units
    assert type(informers.cache.__spec__.loader).__name__ == "SourceFileLoader"
    assert type(units.__spec__.loader).__name__ == "AssertionRewritingHook"
"""


def test_asserts_of_the_runtime_are_not_rewritten_when_it_is_installed(tmp_path: Path) -> None:
    """As pip installs it: there pytest rewrites all that the plugin came with, unless it is told not to."""
    installed = tmp_path / "site" / "reconcile_runtime-0.dist-info"
    installed.mkdir(parents=True)
    for name, text in INSTALLED.items():
        (installed / name).write_text(text)
    (installed.parent / "units.py").touch()
    (tmp_path / "test_loaders.py").write_text(LOADERS)
    done = run(tmp_path, PYTHONPATH=str(installed.parent))
    assert done.returncode == 0, done.stdout


def told(folder: Path, *options: str) -> dict[str, Any]:
    run(folder, *options)
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def run(folder: Path, *options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest on the tests of a folder, as a stranger's project with nothing configured."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "50", *options, "."],
        cwd=folder,
        env={**environ, **variables, "TOLD": str(folder / "told.json")},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


def test_no_public_name_of_the_test_kit_is_hidden_by_a_module_with_that_name() -> None:
    modules = {file.stem for file in Path(reconcile.testing.__file__).parent.glob("*.py")}
    assert not modules.intersection(reconcile.testing.__all__)
