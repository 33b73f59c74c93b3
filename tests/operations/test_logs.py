"""The output of attempts: stored by whoever holds the lease, once, in order, up to a limit."""

from functools import partial
from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.operations import logs as operation
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.logs import (
    OFFSET_MAX,
    READ_BYTES_MAX,
    STRETCH_BYTES_MAX,
    LineStart,
    Log,
    Stretch,
    append_log,
    append_logs,
    find_line,
    read_log,
)
from tests.world import World, fence_of


@pytest.fixture
async def mine(world: World) -> Claim:
    """A task that has been claimed."""
    await world.submit(max_retries_failure=1, backoff={"base": 0.0})
    [claim] = await world.claim()
    return claim


async def append(ledger: Ledger, claim: Claim, offset: int, content: bytes) -> None:
    await append_log(ledger, Stretch(fence_of(claim), offset, content))


async def read(ledger: Ledger, claim: Claim, offset: int = 0) -> Log:
    return await read_log(
        ledger.database, claim.task_id, attempt=claim.attempt, start_offset=offset
    )


def bare(log: Log) -> Log:
    """Leave out when it was stored."""
    return log._replace(times=())


async def test_output_is_read_from_any_offset(ledger: Ledger, mine: Claim) -> None:
    await append(ledger, mine, 0, b"one\n")
    await append(ledger, mine, 4, b"two\n")
    whole = b"one\ntwo\n"
    for offset in range(len(whole) + 2):
        assert bare(await read(ledger, mine, offset)) == Log(0, offset, whole[offset:], False)


async def test_a_log_says_when_its_bytes_were_stored(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await append(ledger, mine, 0, b"one\n")
    await world.clock.advance(60)
    await append(ledger, mine, 4, b"two\n")
    first, second = (await read(ledger, mine)).times
    assert (first.start_offset, second.start_offset) == (0, 4)
    assert 59 < (second.at - first.at).total_seconds() < 70
    assert (await read(ledger, mine, 2)).times == [first._replace(start_offset=2), second]
    assert (await read(ledger, mine, 5)).times == [second._replace(start_offset=5)]
    assert (await read(ledger, mine, 8)).times == []


async def test_output_is_any_bytes(ledger: Ledger, mine: Claim) -> None:
    content = bytes(range(256))
    await append(ledger, mine, 0, content)
    assert (await read(ledger, mine)).content == content


async def test_an_attempt_without_output_has_an_empty_log(ledger: Ledger, mine: Claim) -> None:
    assert bare(await read(ledger, mine)) == Log(0, 0, b"", False)


async def test_a_stretch_that_comes_twice_is_stored_once(ledger: Ledger, mine: Claim) -> None:
    await append(ledger, mine, 0, b"one\n")
    await append(ledger, mine, 0, b"one\n")
    await append_logs(ledger, [Stretch(fence_of(mine), 0, b"one\n")] * 2)
    assert (await read(ledger, mine)).content == b"one\n"


async def test_a_stretch_that_has_grown_meanwhile_is_stored_whole(
    ledger: Ledger, mine: Claim
) -> None:
    await append(ledger, mine, 0, b"one\n")
    await append(ledger, mine, 0, b"one\ntwo\n")
    await append(ledger, mine, 0, b"one\n")
    assert (await read(ledger, mine)).content == b"one\ntwo\n"
    stretches = [Stretch(fence_of(mine), 8, content) for content in (b"three\n", b"th")]
    await append_logs(ledger, stretches)
    assert (await read(ledger, mine)).content == b"one\ntwo\nthree\n"


async def test_stretches_that_overlap_are_read_once(ledger: Ledger, mine: Claim) -> None:
    await append(ledger, mine, 0, b"abcdef")
    await append(ledger, mine, 2, b"cd")
    await append(ledger, mine, 4, b"efgh")
    assert (await read(ledger, mine)).content == b"abcdefgh"


async def test_a_gap_is_stepped_over_and_offsets_stay_true(ledger: Ledger, mine: Claim) -> None:
    await append(ledger, mine, 0, b"abc")
    await append(ledger, mine, 10, b"xyz")
    assert bare(await read(ledger, mine, 0)) == Log(0, 0, b"abc", False)
    assert bare(await read(ledger, mine, 3)) == Log(0, 10, b"xyz", False)
    assert bare(await read(ledger, mine, 13)) == Log(0, 13, b"", False)


async def test_a_log_is_complete_when_nobody_can_write_to_it_any_more(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await append(ledger, mine, 0, b"begun\n")
    await world.cancel_task(mine.task_id, "hard")
    assert not (await read(ledger, mine)).is_complete
    await append(ledger, mine, 6, b"last words\n")
    await world.complete(mine, "killed")
    assert bare(await read(ledger, mine)) == Log(0, 0, b"begun\nlast words\n", True)


async def test_a_gap_does_not_make_a_log_complete_too_early(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await append(ledger, mine, 0, b"abc")
    await append(ledger, mine, 10, b"xyz")
    await world.succeed(mine)
    assert not (await read(ledger, mine, 0)).is_complete
    assert (await read(ledger, mine, 3)).is_complete


async def test_a_long_log_is_read_in_parts(
    ledger: Ledger, world: World, mine: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "STRETCHES_PER_READ_MAX", 16)
    count = 35
    await append_logs(ledger, [Stretch(fence_of(mine), n * 2, b"%02d" % n) for n in range(count)])
    await world.succeed(mine)
    found, offset, parts = b"", 0, 0
    while True:
        log = await read(ledger, mine, offset)
        found += log.content
        offset += len(log.content)
        parts += 1
        if log.is_complete:
            break
        assert log.content
    assert found == b"".join(b"%02d" % n for n in range(count))
    assert parts == 3


async def test_no_more_is_read_than_is_wanted(ledger: Ledger, world: World, mine: Claim) -> None:
    await append_logs(ledger, [Stretch(fence_of(mine), n * 2, b"%02d" % n) for n in range(9)])
    await world.succeed(mine)
    read = partial(read_log, ledger.database, mine.task_id)
    assert bare(await read(bytes_max=3)) == Log(0, 0, b"000", False)
    first, second = (await read(bytes_max=3)).times
    assert (first.start_offset, second.start_offset) == (0, 2)
    assert bare(await read(start_offset=15, bytes_max=2)) == Log(0, 15, b"70", False)
    assert bare(await read(start_offset=15, bytes_max=3)) == Log(0, 15, b"708", True)
    for bad in (0, -1, READ_BYTES_MAX + 1):
        with pytest.raises(Invalid) as refused:
            await read(bytes_max=bad)
        assert refused.value.field == "bytes_max"


async def test_each_attempt_has_a_log_of_its_own(ledger: Ledger, world: World, mine: Claim) -> None:
    await append(ledger, mine, 0, b"first\n")
    await world.fail(mine)
    await world.run_chores()
    [again] = await world.claim()
    await append(ledger, again, 0, b"second\n")
    assert (await read(ledger, mine)).content == b"first\n"
    latest = await read_log(ledger.database, mine.task_id)
    assert bare(latest) == Log(1, 0, b"second\n", False)


async def test_only_the_holder_of_the_lease_may_write(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    strangers = [
        Fence(mine.task_id, mine.attempt, uuid4()),
        Fence(mine.task_id, mine.attempt + 1, mine.lease_token),
        Fence(TaskId(mine.task_id.job_id, 7), mine.attempt, mine.lease_token),
        Fence(TaskId(mine.task_id.job_id + 1, 0), mine.attempt, mine.lease_token),
    ]
    for stranger in strangers:
        with pytest.raises(LeaseConflict) as refused:
            await append_log(ledger, Stretch(stranger, 0, b"lies"))
        assert refused.value.task_id == str(stranger.task_id)
    await world.succeed(mine)
    with pytest.raises(LeaseConflict):
        await append(ledger, mine, 0, b"too late")
    assert (await read(ledger, mine)).content == b""


async def test_of_many_attempts_those_whose_lease_is_lost_are_named_and_not_kept(
    ledger: Ledger, mine: Claim
) -> None:
    stranger = Fence(mine.task_id, mine.attempt, uuid4())
    both = [Stretch(fence_of(mine), 0, b"mine"), Stretch(stranger, 4, b"lies")]
    assert await append_logs(ledger, both) == {stranger}
    assert (await read(ledger, mine)).content == b"mine"


async def test_nothing_to_keep_is_no_error(ledger: Ledger) -> None:
    assert await append_logs(ledger, []) == set()


async def test_sizes_are_limited_and_the_error_says_the_limit(ledger: Ledger, mine: Claim) -> None:
    with pytest.raises(TooLarge) as refused:
        await append(ledger, mine, 0, b"x" * (STRETCH_BYTES_MAX + 1))
    assert (refused.value.field, refused.value.limit) == ("content", STRETCH_BYTES_MAX)
    with pytest.raises(TooLarge) as refused:
        await append(ledger, mine, OFFSET_MAX - 1, b"xx")
    assert (refused.value.field, refused.value.limit) == ("offset", OFFSET_MAX)
    with pytest.raises(Invalid) as negative:
        await append(ledger, mine, -1, b"xx")
    assert negative.value.field == "offset"
    with pytest.raises(Invalid) as bad:
        await append_logs(ledger, [Stretch(Fence(mine.task_id, -1, mine.lease_token), 0, b"")])
    assert bad.value.field == "attempt"
    assert (await read(ledger, mine)).content == b""
    await append(ledger, mine, OFFSET_MAX - STRETCH_BYTES_MAX, b"x" * STRETCH_BYTES_MAX)


MIB = 1 << 20


async def test_of_a_long_log_both_ends_are_kept_and_readers_see_how_much_is_not(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    content = b"x" * (MIB - 1) + b"\n"
    for number in range(40):
        await append(ledger, mine, number * MIB, content)
    kept, offset, missing = [], 0, []
    while (log := await read(ledger, mine, offset)).content:
        kept.append(log.start_offset // MIB)
        missing += [(log.start_offset, log.left_out)] * bool(log.left_out)
        offset = log.start_offset + len(log.content)
    assert kept == [*range(8), *range(31, 40)]
    assert missing == [(31 * MIB, 23 * MIB)]
    # Whoever followed it and was too slow sees that, too.
    assert (await read(ledger, mine, 20 * MIB)).left_out == 11 * MIB
    stranger = Fence(mine.task_id, mine.attempt, uuid4())
    await append_logs(ledger, [Stretch(stranger, 90 * MIB, b"lies")])
    assert (await read(ledger, mine, 8 * MIB)).start_offset == 31 * MIB
    # What was left out is a line, too.
    last = await find_line(ledger.database, mine.task_id, line=-1)
    assert last == LineStart(0, 39 * MIB, 18)
    assert await find_line(ledger.database, mine.task_id, line=9) == LineStart(0, 31 * MIB, 10)


async def test_a_log_of_a_worker_that_stops_at_16_mib_is_kept_whole(
    ledger: Ledger, mine: Claim
) -> None:
    for number in range(16):
        await append(ledger, mine, number * MIB, b"x" * MIB)
    await append(ledger, mine, 16 * MIB, b"y" * 1024)
    for number in range(16):
        assert (await read(ledger, mine, number * MIB)).start_offset == number * MIB


TEXT = b"one\ntwo\r\n\nthree\rfour\n"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_lines_are_found_by_their_number_from_both_ends(
    ledger: Ledger, mine: Claim, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(operation, "COUNTED_BYTES_PER_READ", size)
    await append(ledger, mine, 0, TEXT[:8])
    await append(ledger, mine, 8, TEXT[8:])
    find = partial(find_line, ledger.database, mine.task_id)
    starts = [0, 4, 9, 10, 16]
    for number, start in enumerate(starts, 1):
        assert await find(line=number) == LineStart(0, start, number)
        assert await find(line=number - 6) == LineStart(0, start, number)
    assert await find(line=6) == LineStart(0, len(TEXT), 6)
    assert await find(line=99) == LineStart(0, len(TEXT), 6)
    assert await find(line=-99) == LineStart(0, 0, 1)
    await append(ledger, mine, len(TEXT), b"open")
    assert await find(line=-1) == LineStart(0, len(TEXT), 6)


async def test_what_never_came_is_no_line(ledger: Ledger, mine: Claim) -> None:
    """Nobody is shown a line for it, as they are for what is left out of a long log."""
    await append(ledger, mine, 0, b"one\n")
    await append(ledger, mine, 10, b"two\n")
    for line in (2, -1):
        found = await find_line(ledger.database, mine.task_id, line=line)
        assert found == LineStart(0, 10, 2)


async def test_an_empty_log_begins_with_its_first_line(ledger: Ledger, mine: Claim) -> None:
    assert await find_line(ledger.database, mine.task_id, line=-10) == LineStart(0, 0, 1)
    assert await find_line(ledger.database, mine.task_id, line=10) == LineStart(0, 0, 1)
    for line, field in ((0, "line"), (1 << 40, "line"), (-(1 << 40), "tail")):
        with pytest.raises(Invalid) as refused:
            await find_line(ledger.database, mine.task_id, line=line)
        assert refused.value.field == field


async def test_what_is_not_there_cannot_be_read(ledger: Ledger, world: World, mine: Claim) -> None:
    job_id = await world.submit()
    for task_id, attempt in (
        (TaskId(job_id, 0), None),
        (TaskId(job_id + 1, 0), None),
        (mine.task_id, 1),
        (TaskId(mine.task_id.job_id, 1), 0),
    ):
        with pytest.raises(NotFound):
            await read_log(ledger.database, task_id, attempt=attempt)
    bad: list[tuple[str, TaskId, int | None, int]] = [
        ("task_id", TaskId(0, 0), None, 0),
        ("attempt", mine.task_id, -1, 0),
        ("offset", mine.task_id, 0, -1),
        ("offset", mine.task_id, 0, OFFSET_MAX + 1),
    ]
    for field, task_id, attempt, offset in bad:
        with pytest.raises(Invalid) as refused:
            await read_log(ledger.database, task_id, attempt=attempt, start_offset=offset)
        assert refused.value.field == field
