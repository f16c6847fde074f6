"""One row of the table that says what a name of kopf becomes."""

import re

from attrs import frozen


@frozen
class Counterpart:
    """A row of the table. `here` in Markdown, empty where nothing takes its place; `instead` says what to do.

    `page` is a page of the documentation, as seen from `docs`, that says more.
    """

    name: str
    here: str
    instead: str = ""
    page: str = ""

    @property
    def anchor(self) -> str:
        """Where its row is on the page."""
        name = self.name.replace("=", " argument").replace("@", "decorator ").replace("*", "section")
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

    @property
    def words(self) -> str:
        """What it becomes, as plain text."""
        return plain(self.here or f"nothing: {self.instead}")


def plain(markdown: str) -> str:
    """Markdown without backticks and links."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", markdown).replace("`", "")
