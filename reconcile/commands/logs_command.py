"""`reconcile logs`: the log of a manager, for people, of one object or one run if asked for."""

import datetime
import heapq
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import IO, Final

import anyio
import click
from attrs import define, field, frozen

from informers import ApiError, Forbidden, SystemClock, Unauthorized
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import connect
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.log_lines import LEVELS, LineSplitter, LogFilter, LogLine, is_about, moment_of, parsed
from reconcile.commands.log_pods import PodLogs
from reconcile.commands.log_text import shown, shown_foreign, shown_json
from reconcile.commands.problems import Problem
from reconcile.commands.terminals import is_interactive
from reconcile.doctor.findings import printable

LINES_KEPT: Final = 100_000
"""Lines of a pod that are sorted in among those of the others: the latest ones."""
CONTROLLERS_NAMED: Final = 5

_CHUNK: Final = 1 << 16
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_OLDEST: Final = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)


@click.command()
@click.argument("kind", metavar="[KIND", required=False, default="")
@click.argument("name", metavar="[NAMESPACE/NAME]]", required=False, default="")
@click.option("--file", "files", metavar="FILE", multiple=True, help="Read this file; - is standard input.")
@click.option("--name", "operator", metavar="NAME", help="Read the pods of this operator.")
@click.option("--namespace", "-n", metavar="NS", help="Namespace that it runs in. Default: NAME-system.")
@kubeconfig_options
@click.option("--follow", "-f", is_flag=True, help="Keep showing lines of the pods, until Ctrl-C.")
@click.option("--previous", is_flag=True, help="Read the containers of the pods before the present ones.")
@click.option("--controller", metavar="NAME", default="", help="Show lines of this controller.")
@click.option("--id", "reconcile_id", metavar="ID", default="", help="Show the run whose id begins so.")
@click.option("--level", type=click.Choice(LEVELS), help="Show lines of this level, or worse.")
@click.option("--since", metavar="TIME", help="Show lines since then: 90s, 10m, 2h, 1d, or a time.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON lines as they are.")
def logs(
    kind: str,
    name: str,
    files: tuple[str, ...],
    operator: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    follow: bool,
    previous: bool,
    controller: str,
    reconcile_id: str,
    level: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    """Show the log of a manager: of one object, one controller or one run.

    KIND is a kind, its plural, or the name of a controller. The log is that of --file, of all pods of the
    operator --name, or else standard input. It is the JSON that a manager writes where no terminal is.
    Other lines are shown as they are; with a filter or --json they are left out and counted.
    """
    key = name.strip("/")
    if key.count("/") > 1:
        raise Problem(f"{name!r} does not name an object", "write NAMESPACE/NAME, or NAME alone")
    oldest = None if since is None else oldest_of(since, SystemClock().now())
    chosen = LogFilter(kind, key, controller, reconcile_id, level or "", oldest)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    page = LogPage(chosen, as_json, width)
    if operator is not None:
        if files:
            raise Problem("--file and --name are two logs", "leave one of them out")
        if follow and previous:
            raise Problem(
                "--follow and --previous were both given", "a container that has ended writes no more"
            )
        source = _Source(kubeconfig, context, namespace or f"{operator}-system", operator, previous, oldest)
        anyio.run(_show_pods, source, page, follow)
    elif follow or previous or namespace or kubeconfig or context:
        raise Problem(
            "these options are about the pods of an operator", "name it with --name; tail -F follows a file"
        )
    else:
        _show_files(files, page)
    page.conclude()


def oldest_of(text: str, now: datetime.datetime) -> datetime.datetime:
    """The time that `--since` means. Raises Problem."""
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        try:
            return now - datetime.timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
        except OverflowError:
            return _EPOCH
    moment = moment_of(text)
    if moment is None:
        raise Problem(f"{text!r} is not a time", "write 90s, 10m, 2h, 1d, or 2026-11-23T12:00:00Z")
    return moment


@define
class LogPage:
    """What is shown of a log, and what is counted of the rest."""

    chosen: LogFilter
    as_json: bool
    width: int
    read: int = field(default=0, init=False)
    passed: int = field(default=0, init=False)
    foreign: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    """Lines that made room for later ones."""
    others: dict[str, None] = field(factory=dict, init=False)
    """Controllers that the key of the filter has lines of, where its kind has none."""

    def entry(self, raw: bytes, pod: str = "") -> LogLine | bytes | None:
        """A line that is to be shown; bytes if it is not of a manager, None if it is to be left out."""
        if not raw.strip():
            return None
        self.read += 1
        line = parsed(raw, pod)
        if line is None:
            self.foreign += 1
            return raw if self.chosen.chooses_all and not self.as_json else None
        if self.chosen.passes(line):
            self.passed += 1
            return line
        self._note_other(line)
        return None

    def _note_other(self, line: LogLine) -> None:
        """Remember a controller that has another name than the kind that was asked for."""
        controller, chosen = line.text("controller"), self.chosen
        is_other = chosen.key and chosen.concerns(line) and not is_about(line, chosen.kind)
        if is_other and len(self.others) < CONTROLLERS_NAMED:
            self.others[controller] = None

    def show(self, entry: LogLine | bytes) -> None:
        """Print a line."""
        if isinstance(entry, bytes):
            click.echo(shown_foreign(entry))
        elif self.as_json:
            click.echo(shown_json(entry, safe=bool(self.width)))
        else:
            click.echo(shown(entry, self.width))

    def take(self, pod: str, raw: bytes) -> None:
        """Show a line at once, if it is to be shown."""
        entry = self.entry(raw, pod)
        if entry is not None:
            self.show(entry)

    def conclude(self) -> None:
        """Say on stderr what is not to be seen above, and why."""
        if self.foreign and (self.as_json or not self.chosen.chooses_all):
            click.echo(
                f"{self.foreign} of {self.read} lines are not JSON of a manager and were left out; a manager "
                'whose log is text writes JSON with configure_logging(format="json")',
                err=True,
            )
        if self.dropped:
            click.echo(
                f"{self.dropped} older lines were left out, since the last {LINES_KEPT} of a pod are sorted: "
                "narrow them with --since, or a filter",
                err=True,
            )
        if self.passed or self.chosen.chooses_all:
            return
        names = ", ".join(sorted(filter(None, self.others)))
        hint = f"; the controllers with lines of that key: {printable(names)}" if names else ""
        click.echo(f"none of {self.read} lines matches{hint}", err=True)


# --- files --------------------------------------------------------------------------------------------------


def _show_files(files: tuple[str, ...], page: LogPage) -> None:
    if not files and is_interactive():
        raise Problem("there is no log to read", "name an operator with --name, or a --file, or pipe one in")
    with ExitStack() as stack:
        streams = [stack.enter_context(_opened(name)) for name in files or ("-",)]
        if len(streams) > 1:
            _show_sorted([(page.entry(raw) for raw in _lines(stream)) for stream in streams], page)
            return
        for raw in _lines(streams[0]):
            page.take("", raw)


def _opened(name: str) -> AbstractContextManager[IO[bytes]]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(name).open("rb", buffering=0)
    except OSError as error:
        raise Problem(f"cannot read {name}", error.strerror or str(error)) from None


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream as they come: a pipe that is still written is not waited for."""
    splitter, read = LineSplitter(), getattr(stream, "read1", stream.read)
    try:
        while chunk := read(_CHUNK):
            yield from splitter.feed(chunk)
    except OSError as error:  # a folder, a disk that fails
        raise Problem(f"cannot read {stream.name}", error.strerror or str(error)) from None
    yield from splitter.last()


def _show_sorted(logs: Iterable[Iterable[LogLine | bytes | None]], page: LogPage) -> None:
    """Show several logs as one, by time; a line without one stays behind the line before it."""
    for _, _, entry in heapq.merge(*(_timed(number, log) for number, log in enumerate(logs))):
        page.show(entry)


def _timed(
    number: int, log: Iterable[LogLine | bytes | None]
) -> "Iterator[tuple[datetime.datetime, tuple[int, int], LogLine | bytes]]":
    latest = _OLDEST
    for place, entry in enumerate(log):
        if entry is None:
            continue
        if isinstance(entry, LogLine) and entry.time is not None:
            latest = max(latest, entry.time)
        yield latest, (number, place), entry


# --- pods ---------------------------------------------------------------------------------------------------


@frozen
class _Source:
    """The pods of an operator in a cluster."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    name: str
    previous: bool
    since: datetime.datetime | None


async def _show_pods(source: _Source, page: LogPage, follow: bool) -> None:
    try:
        transport = await connect(source.kubeconfig, source.context)
    except ConfigurationProblem as problem:
        raise Problem(str(problem), "name another with --kubeconfig") from None
    try:
        pods = PodLogs(
            transport, source.namespace, source.name, source.previous, source.since, _say_on_stderr
        )
        await show_pods(pods, page, follow=follow)
    except (Forbidden, Unauthorized) as error:
        raise Problem(str(error), "it needs the rights to list pods and to get pods/log") from None
    except ApiError as error:
        raise Problem(str(error)) from None
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


def _say_on_stderr(line: str) -> None:
    click.echo(printable(line), err=True)


async def show_pods(pods: PodLogs, page: LogPage, *, follow: bool) -> None:
    """Show the logs of pods: sorted by time, or as they come. Raises Problem and ApiError."""
    if follow:
        await pods.follow(page.take)
        return
    kept: dict[str, deque[LogLine | bytes]] = {}

    def keep(pod: str, raw: bytes) -> None:
        entry = page.entry(raw, pod)
        if entry is not None:
            lines = kept.setdefault(pod, deque(maxlen=LINES_KEPT))
            page.dropped += len(lines) == LINES_KEPT
            lines.append(entry)

    await pods.read(keep)
    _show_sorted(kept.values(), page)
