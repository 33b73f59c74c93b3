"""Lines of a job's output on a real ledger: found by text and time, page by page, each once."""

import random
from datetime import timedelta
from typing import Any

import pytest

from holdfast.operations.claiming.claim import Claim
from holdfast.operations.logs import Stretch, append_logs
from holdfast.store.database import Database
from holdfast.store.reads.output import log_lines
from holdfast.store.reads.output.log_lines import LinePosition, LineRow, Wanted, search_job_log
from tests.world import World, fence_of


async def say(world: World, claim: Claim, offset: int, content: bytes) -> None:
    """Store some output, and let a second pass."""
    await append_logs(world.ledger, [Stretch(fence_of(claim), offset, content)])
    await world.clock.advance(1)


async def search(
    database: Database, job_id: int, wanted: Wanted, **how: Any
) -> tuple[list[LineRow], int]:
    """Read all pages; gives their lines, and how many pages there were."""
    found: list[LineRow] = []
    after: LinePosition | None = None
    for pages in range(1, 200):
        async with database.transaction() as tx:
            options = {"page_size": 100} | how
            rows, after = await search_job_log(tx, job_id, wanted, after=after, **options)
        found += rows
        if after is None:
            return found, pages
    raise AssertionError("the log has no end")


def told(rows: list[LineRow]) -> list[tuple[int, int, int, bytes]]:
    return [
        (row.position.stretch.task_index, row.position.stretch.attempt, row.position.offset,
         row.content)
        for row in rows
    ]  # fmt: skip


@pytest.fixture
async def job_id(world: World) -> int:
    """Two tasks that have written by turns, the first of them in two attempts."""
    job_id = await world.submit([0, 1], max_retries_failure=1, backoff={"base": 0.0})
    first, second = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    await say(world, first, 0, b"load a\nload ")
    await say(world, second, 0, b"load c\n")
    await say(world, first, 12, b"b\nfailed")
    await world.fail(first)
    await world.run_chores()
    [again] = await world.claim()
    await say(world, again, 0, b"load a again\n")
    return job_id


ALL = [
    (0, 0, 0, b"load a"),
    (0, 0, 7, b"load b"),
    (1, 0, 0, b"load c"),
    (0, 0, 14, b"failed"),
    (0, 1, 0, b"load a again"),
]


async def test_lines_of_all_attempts_are_found_in_the_order_they_came(
    database: Database, job_id: int
) -> None:
    for how in ({}, {"page_size": 1}, {"page_size": 2}, {"bytes_max": 1}, {"bytes_max": 20}):
        found, _ = await search(database, job_id, Wanted(), **how)
        assert told(found) == ALL, how
        for text in (b"load", b"d a", b"load b", b"x"):
            found, _ = await search(database, job_id, Wanted(text), **how)
            assert told(found) == [line for line in ALL if text in line[3]], (text, how)


async def test_lines_are_found_by_task_attempt_and_time(
    database: Database, job_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for examined_max in (10_000, 1):
        monkeypatch.setattr(log_lines, "STRETCHES_EXAMINED_MAX", examined_max)
        for wanted, lines in (
            (Wanted(task_index=1), ALL[2:3]),
            (Wanted(b"load", task_index=0, attempt=1), ALL[4:]),
            (Wanted(attempt=0), ALL[:4]),
            (Wanted(task_index=7), []),
        ):
            assert told((await search(database, job_id, wanted))[0]) == lines, wanted
        everything, _ = await search(database, job_id, Wanted())
        times = [row.position.stretch.stored_at for row in everything]
        assert times == sorted(times)
        since = Wanted(since=times[2])
        assert told((await search(database, job_id, since))[0]) == ALL[2:]
        until = Wanted(since=times[2], until=times[3])
        assert told((await search(database, job_id, until))[0]) == ALL[2:3]
        later = Wanted(since=times[-1] + timedelta(microseconds=1))
        assert told((await search(database, job_id, later))[0]) == []


async def test_a_page_holds_a_bounded_number_of_bytes(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines, "FOUND_BYTES_MAX", 25)
    job_id = await world.submit()
    [claim] = await world.claim()
    await say(world, claim, 0, b"".join(b"line %04d\n" % n for n in range(10)))
    found, pages = await search(database, job_id, Wanted())
    assert [row.content for row in found] == [b"line %04d" % n for n in range(10)]
    assert pages == 5


@pytest.mark.parametrize("seed", range(3))
async def test_every_line_is_found_once_however_it_was_cut_and_paged(
    world: World, database: Database, seed: int
) -> None:
    dice = random.Random(seed)
    job_id = await world.submit([0, 1])
    texts = [b"".join(b"%d-%02d %s\n" % (task, n, b"x" * dice.randint(0, 30)) for n in range(40))
             for task in range(2)]  # fmt: skip
    stretches = []
    claims = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    for claim, text in zip(claims, texts, strict=True):
        at = 0
        while at < len(text):
            size = dice.randint(1, 60)
            stretches.append(Stretch(fence_of(claim), at, text[at : at + size]))
            at += size
    for stretch in stretches:
        await append_logs(world.ledger, [stretch])
    for how in ({"page_size": 7}, {"bytes_max": dice.randint(1, 200)}):
        for wanted in (Wanted(), Wanted(b"-1")):
            found, _ = await search(database, job_id, wanted, **how)
            for task, text in enumerate(texts):
                mine = [row.content for row in found if row.position.stretch.task_index == task]
                assert mine == [line for line in text.splitlines() if wanted.text in line]


async def test_a_line_does_not_go_on_behind_what_is_left_out(
    database: Database, world: World
) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await say(world, claim, 0, b"one\nbegins")
    await say(world, claim, 100, b" ends\nlast")
    await say(world, claim, 110, b" words\n")
    for bytes_max in (1, 1000):
        rows, _ = await search(database, job_id, Wanted(), bytes_max=bytes_max)
        assert [(row.position.offset, row.content) for row in rows] == [
            (0, b"one"),
            (4, b"begins"),
            (100, b" ends"),
            (106, b"last words"),
        ]
