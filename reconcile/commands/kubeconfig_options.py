"""The options that choose a cluster."""

from collections.abc import Callable
from typing import TypeVar

import click

from reconcile.commands.completions import contexts

F = TypeVar("F", bound=Callable[..., object])


def kubeconfig_options(command: F) -> F:
    """`--kubeconfig` and `--context`; the command gets them under these names, or None."""
    file = click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(),
        help="Kubeconfig. Default: $KUBECONFIG, the pod's account, ~/.kube/config.",
    )
    context = click.option(
        "--context",
        metavar="NAME",
        shell_complete=contexts,
        help="Context of the kubeconfig. Default: its current one.",
    )
    return file(context(command))
