"""Clients for the rehearsal of a run, with which nothing is carried out."""

from collections.abc import Callable

from reconcile.client.client import Client, bound
from reconcile.client.own_writes import NoJournal


def dry(client: Client) -> Client:
    """A client for a rehearsal, which carries nothing out and waits for nothing."""
    return bound(client, NoJournal()).with_options(dry_run=True)


def dry_elsewhere(client_of: Callable[[str], Client], cluster: str) -> Client:
    """The same of the client of another cluster. Raises LookupError."""
    return dry(client_of(cluster))
