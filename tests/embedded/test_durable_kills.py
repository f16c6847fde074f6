"""A server that is killed under load has, after its next start, all that it answered and nothing half.

Each kill: writers change objects of their own and a watch listens, then SIGKILL at a random moment, at times
during the start itself. Afterwards each object is as its writer was told last, or as the one write makes it
that was not answered, and a watch from the same version begins with exactly the lines that were heard.
`make kills` plays 200.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from attrs import define, field

from reconcile.embedded.durable.reading import load
from tests.embedded.api_client import CONFIG_MAPS
from tests.embedded.durable_worlds import bases

KILLS = int(os.environ.get("KILLS", "5"))
ROOT = Path(__file__).parents[2]
WRITERS = 8
# Small, so that kills meet new segments and compactions too; the kept history is longer than most rounds.
SIZES = {"SEGMENT_BYTES": 50_000, "KEPT_BYTES": 500_000, "_WASTE": 50_000}

State = tuple[str, str] | None  # uid and text of an object; None if it does not exist


@define
class Story:
    """What clients were told."""

    told: dict[str, State] = field(factory=dict)
    asked: dict[str, State] = field(factory=dict)
    """What the write under way would make of an object; the uid of a new one is not known."""
    heard: list[bytes] = field(factory=list)
    newest: int = 0
    """The newest version that any answer had."""
    answers: int = 0


@define
class Tally:
    answers: int = 0
    heard: int = 0
    torn: int = 0
    kept_unanswered: int = 0
    lost_unanswered: int = 0
    at_start: int = 0
    expired: int = 0
    """Rounds after which what was heard had been compacted."""


@contextmanager
def victims() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.embedded.durable_victims"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def ask(template: "subprocess.Popen[str]", folder: Path) -> None:
    assert template.stdin is not None
    template.stdin.write(json.dumps({"folder": str(folder), **SIZES}) + "\n")
    template.stdin.flush()


async def next_line(template: "subprocess.Popen[str]") -> dict[str, Any]:
    assert template.stdout is not None
    said: dict[str, Any] = json.loads(await asyncio.to_thread(template.stdout.readline))
    return said


async def begun(template: "subprocess.Popen[str]", folder: Path) -> dict[str, Any]:
    """Start a server; returns its process and URL."""
    ask(template, folder)
    return await next_line(template)


def state_of(obj: dict[str, Any]) -> State:
    return obj["metadata"]["uid"], obj["data"]["text"]


async def write(client: aiohttp.ClientSession, story: Story, name: str, chance: random.Random) -> None:
    """One write of an object that no other writer touches."""
    before, text = story.told.get(name), f"{chance.getrandbits(64)}" * chance.choice((1, 20, 200))
    body = {"metadata": {"name": name}, "data": {"text": text}}
    if before is None:
        story.asked[name] = ("", text)
        asking = client.post(CONFIG_MAPS, json=body)
    elif chance.random() < 0.3:
        story.asked[name] = None
        asking = client.delete(f"{CONFIG_MAPS}/{name}")
    else:
        story.asked[name] = (before[0], text)
        asking = client.put(f"{CONFIG_MAPS}/{name}", json=body)
    async with asking as answer:
        told = await answer.json()
    assert answer.status < 300, told
    story.told[name] = None if told["kind"] == "Status" else state_of(told)
    story.newest = max(story.newest, int(told["metadata"].get("resourceVersion", 0)))
    del story.asked[name]
    story.answers += 1


async def writer(client: aiohttp.ClientSession, story: Story, number: int, chance: random.Random) -> None:
    with suppress(aiohttp.ClientError):
        while True:
            await write(client, story, f"w{number}-{chance.randrange(6)}", chance)


async def listener(client: aiohttp.ClientSession, story: Story, since: str) -> None:
    with suppress(aiohttp.ClientError):
        async with client.get(CONFIG_MAPS, params={"watch": "1", "resourceVersion": since}) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                story.heard += lines


async def version(client: aiohttp.ClientSession) -> str:
    async with client.get(CONFIG_MAPS, params={"limit": "1"}) as answer:
        found: str = (await answer.json())["metadata"]["resourceVersion"]
    return found


async def compare(client: aiohttp.ClientSession, story: Story, since: str, tally: Tally) -> None:
    async with client.get(CONFIG_MAPS) as answer:
        listed = await answer.json()
    found = {one["metadata"]["name"]: state_of(one) for one in listed["items"]}
    assert int(listed["metadata"]["resourceVersion"]) >= story.newest
    assert found.keys() <= story.told.keys() | story.asked.keys()
    for name in story.told.keys() | story.asked.keys():
        now, told = found.get(name), story.told.get(name)
        if now != told:
            assert name in story.asked, f"{name} is {now}, and its writer was told {told}"
            wanted = story.asked[name]
            assert (now and now[1]) == (wanted and wanted[1]), f"{name} is {now}, and {wanted} was asked for"
            tally.kept_unanswered += 1
        elif name in story.asked:
            tally.lost_unanswered += 1
        story.told[name] = now
    story.asked.clear()
    again = Story()
    listening = asyncio.create_task(listener(client, again, since))
    async with asyncio.timeout(20):
        while len(again.heard) < len(story.heard) and not listening.done():
            await asyncio.sleep(0.01)
    listening.cancel()
    if again.heard and json.loads(again.heard[0])["type"] == "ERROR":
        assert json.loads(again.heard[0])["object"]["reason"] == "Expired"
        tally.expired += 1
    else:
        assert again.heard[: len(story.heard)] == story.heard


async def play(folder: Path, kills: int, seed: int) -> Tally:
    chance, story, tally = random.Random(seed), Story(), Tally()
    with victims() as template:
        since = "0"
        for _ in range(kills):
            if chance.random() < 0.2:
                process = await interrupt_start(template, folder, chance)
                tally.at_start += 1
            else:
                said = await begun(template, folder)
                process = said["process"]
                async with aiohttp.ClientSession(said["url"]) as client:
                    since = await version(client)
                    tasks = [
                        asyncio.create_task(writer(client, story, number, chance))
                        for number in range(WRITERS)
                    ]
                    tasks.append(asyncio.create_task(listener(client, story, since)))
                    # A real time: any condition would favour some moments of the server's work.
                    await asyncio.sleep(chance.uniform(0.02, 0.6))
                    os.kill(process, signal.SIGKILL)
                    await asyncio.gather(*tasks)
            await until_gone(process)
            found = load(folder)
            tally.torn += found.tail is not None and bool(found.tail.torn)
            said = await begun(template, folder)
            async with aiohttp.ClientSession(said["url"]) as client:
                await compare(client, story, since, tally)
            os.kill(said["process"], signal.SIGKILL)
            await until_gone(said["process"])
            tally.answers += story.answers
            tally.heard += len(story.heard)
            story.heard, story.answers = [], 0
            since = str(story.newest)
    return tally


async def interrupt_start(template: "subprocess.Popen[str]", folder: Path, chance: random.Random) -> int:
    """Kill a server that may not have begun to listen; returns its process."""
    lock = folder / "lock"
    before = lock.read_text() if lock.exists() else ""
    starting = asyncio.create_task(begun(template, folder))
    async with asyncio.timeout(20):
        while not starting.done() and not (lock.exists() and lock.read_text() not in ("", before)):
            await asyncio.sleep(0.001)
    await asyncio.sleep(chance.uniform(0, 0.03))  # real time: the kill comes at any point of the start
    process = int(lock.read_text())
    os.kill(process, signal.SIGKILL)
    if not starting.done():
        # Its line may come or not. That of a second server, on a folder of its own, is the last one.
        ask(template, folder.with_name("other"))
        said = await starting
        while said["process"] == process:
            said = await next_line(template)
        os.kill(said["process"], signal.SIGKILL)
        await until_gone(said["process"])
    return process


async def until_gone(process: int) -> None:
    """Wait until a killed server has let go of its folder."""
    async with asyncio.timeout(20):
        with suppress(ProcessLookupError):
            while True:
                os.kill(process, 0)
                await asyncio.sleep(0.002)


@pytest.mark.timeout(60 + 10 * KILLS)
async def test_nothing_that_was_answered_is_lost_and_nothing_half_written_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    tally = await play(folder, KILLS, seed=random.randrange(2**32) if KILLS > 5 else 4)
    print(f"\n{KILLS} kills: {tally}, {len(bases(folder))} bases in the folder")
    assert tally.answers > 0
    assert tally.heard > 0
