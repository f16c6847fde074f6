"""Runs the async tests that use a fixture of this plugin, in virtual time or with `api_server`."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reconcile.testing.plugin import fixtures

OURS = ("api_server", "clock", "cluster", "faults", "manager", "nodes")
MARKER = "simulated(seed=0, limit_seconds=3600): run this async test in virtual time, in an order of the seed"
_RUNTIME = ("workqueue", "informers", "reconcile", "controllers")
_OTHERS_MARKERS = ("asyncio", "anyio", "trio")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Keep pytest from rewriting our asserts, which takes a second, and those of a user's `controllers`."""
    hook = early_config.pluginmanager.rewrite_hook
    marked = getattr(hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.difference_update(_RUNTIME)
        hook.mark_rewrite()  # with nothing new, it forgets what it had concluded from the marks


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Replace the tests that this plugin runs, whatever other plugins have made of them."""
    for index, item in enumerate(items):
        if isinstance(item, pytest.Function) and _is_ours_to_run(item):
            items[index] = KitTest.in_place_of(item)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    if op != "==" or "reconcile.models" not in sys.modules:
        return None
    from reconcile.testing.object_comparison import explain

    return explain(left, right)


class KitTest(pytest.Function):
    """An async test that this plugin runs: in virtual time, or in real time with `api_server`."""

    @classmethod
    def in_place_of(cls, item: pytest.Function) -> "KitTest":
        made: KitTest = cls.from_parent(
            item.parent,
            name=item.name,
            callspec=getattr(item, "callspec", None),
            callobj=item.obj,
            fixtureinfo=item._fixtureinfo,
            keywords=item.keywords,
            originalname=item.originalname,
        )
        made.own_markers = item.own_markers
        made.stash[fixtures.SEED] = made.seed
        return made

    @property
    def seed(self) -> int:
        """The value of the parameter `seed` or of the marker, or 0."""
        marker = self.get_closest_marker("simulated")
        given = marker.kwargs.get("seed", 0) if marker is not None else 0
        parameters: dict[str, Any] = self.callspec.params if hasattr(self, "callspec") else {}
        return int(parameters.get("seed", given))

    @property
    def limit_seconds(self) -> float:
        """The virtual time after which the test fails."""
        marker = self.get_closest_marker("simulated")
        return float(marker.kwargs.get("limit_seconds", 3600)) if marker is not None else 3600.0

    def iter_markers_with_node(self, name: str | None = None) -> "Iterator[tuple[Any, pytest.Mark]]":
        """Its markers, without those by which other plugins would claim it."""
        for node, mark in super().iter_markers_with_node(name):
            if mark.name not in _OTHERS_MARKERS:
                yield node, mark

    def setup(self) -> None:
        """Refuse what has an event loop of its own: async fixtures, and tests that hypothesis repeats."""
        if hasattr(self.obj, "hypothesis"):
            pytest.fail(
                f"{self.name} is run by hypothesis many times, and its fixtures once: make it a plain "
                "function, and call VirtualCluster(seed).run(...) or simulate(...) in it",
                pytrace=False,
            )
        for name, definitions in self._fixtureinfo.name2fixturedefs.items():
            function = definitions[-1].func
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                pytest.fail(
                    f"fixture {name!r} is async, and {self.name} runs in a loop of its own: "
                    "make it a plain fixture, or a function that the test awaits",
                    pytrace=False,
                )
        super().setup()

    def runtest(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self, "obj", self._in_a_loop(self.obj))
            super().runtest()

    def _in_a_loop(self, test: Callable[..., Any]) -> Callable[..., None]:
        real = "api_server" in _used(self)

        @functools.wraps(test)
        def run(**arguments: Any) -> None:
            # With the name of the test, so that reports of who waits where can tell it.
            call = functools.update_wrapper(functools.partial(test, **arguments), test)
            if real:
                import anyio

                anyio.run(call)
                return
            from reconcile.testing import simulate

            simulate(call, seed=self.seed, limit_seconds=self.limit_seconds)

        return run


def _is_ours_to_run(item: pytest.Function) -> bool:
    test = item.obj.hypothesis.inner_test if hasattr(item.obj, "hypothesis") else item.obj
    if not inspect.iscoroutinefunction(test):
        return False
    used = _used(item)
    if "api_server" in used:
        # In real time any loop will do: ours stands in where no other plugin has claimed the test.
        return type(item) is pytest.Function and "anyio_backend" not in item.fixturenames
    return bool(used) or item.get_closest_marker("simulated") is not None


def _used(item: pytest.Function) -> set[str]:
    """Which of our fixtures it uses; a fixture of the same name from elsewhere does not count."""
    found = item._fixtureinfo.name2fixturedefs
    names = [name for name in OURS if name in found]
    return {name for name in names if found[name][-1].func.__module__ == fixtures.__name__}
