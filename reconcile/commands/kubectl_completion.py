"""`kubectl reconcile` followed by TAB: kubectl asks the executable kubectl_complete-reconcile.

It gets the words that are typed and answers as commands of cobra do: a candidate on each line, with its
description after a tab, and at last what the shell is to do besides, as a sum of flags after a colon.
"""

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete

from reconcile.commands.main import COMPLETE_VARIABLE, reconcile

_ANY_FILE = 0
_NO_FILES = 4
_FOLDERS = 16
_KEEP_ORDER = 32


def main() -> int:
    """Print the answer to kubectl for the words of the command line."""
    *words, incomplete = sys.argv[1:] or [""]
    shell = ShellComplete(reconcile, {}, "kubectl reconcile", COMPLETE_VARIABLE)
    click.echo(answer(shell.get_completions(words, incomplete)))
    return 0


def answer(items: Sequence[CompletionItem]) -> str:
    """The lines for kubectl."""
    lines = [_line(item) for item in items if item.type == "plain"]
    return "\n".join((*lines, f":{_directive({item.type for item in items})}"))


def _line(item: CompletionItem) -> str:
    description = " ".join((item.help or "").split())
    return f"{item.value}\t{description}" if description else str(item.value)


def _directive(types: set[str]) -> int:
    if "file" in types:
        return _ANY_FILE
    return _FOLDERS if "dir" in types else _NO_FILES | _KEEP_ORDER
