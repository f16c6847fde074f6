"""The `reconcile` command. Each subcommand is a module of its own, imported only when it is called."""

from informers.extras import extras_named

with extras_named():
    from reconcile.commands.main import main

__all__ = ["main"]
