"""Shows content that changes: redrawn in place on a terminal, line by line everywhere else."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from attrs import define, field
from rich.console import Console, RenderableType
from rich.live import Live

Content = TypeVar("Content")
Shown = TypeVar("Shown", contravariant=True)


class Screen(Protocol[Shown]):
    """Shows the latest content."""

    def showing(self) -> AbstractContextManager[object]:
        """While inside, `refresh` may be called."""
        ...

    def refresh(self, content: Shown, /) -> None:
        """Show the present content."""
        ...


@define
class LiveScreen(Generic[Content]):
    """Redraws the content in place."""

    console: Console
    render: Callable[[Content], RenderableType]
    _live: Live = field(init=False)

    def showing(self) -> AbstractContextManager[object]:
        """While inside, the lines of the content belong to it."""
        self._live = Live(console=self.console, auto_refresh=False)
        return self._live

    def refresh(self, content: Content, /) -> None:
        """Draw the content."""
        self._live.update(self.render(content), refresh=True)


def make_screen(
    console: Console, render: Callable[[Content], RenderableType], lines: Callable[[Console], Screen[Content]]
) -> Screen[Content]:
    """A live screen, or the one of `lines` where the console cannot redraw."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveScreen(console, render)
    return lines(console)
