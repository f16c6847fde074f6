"""A browser for the tests of the page: one each worker, a page of it each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.helpers.browsers import HOW_TO_INSTALL, Tab, browser_program, launched, opened_tab


@pytest.fixture(scope="session")
def browser_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = browser_program()
    if program is None:
        pytest.skip(HOW_TO_INSTALL)
    with launched(program, tmp_path_factory.mktemp("browser")) as address:
        yield address


@pytest.fixture
async def tab(browser_address: str) -> AsyncIterator[Tab]:
    """A page, of the size of a laptop's. What goes wrong in it fails the test at its end."""
    async with opened_tab(browser_address) as tab:
        await tab.shaped(1280, 860)
        yield tab
        assert tab.problems == []
