"""Shows content that changes: redrawn in place on a terminal, line by line everywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

Content = TypeVar("Content")


@contextmanager
def showing(
    console: Console, render: Callable[[Content], RenderableType], print_lines: Callable[[Content], None]
) -> Iterator[Callable[[Content], None]]:
    """Yields a function that shows content; on a console that cannot redraw it is `print_lines`."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield print_lines
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda content: live.update(render(content), refresh=True)
