"""Dead letters on a real ledger: by id, by what they say, and the newest in sum."""

from typing import Any

import pytest

from holdfast.errors import NotFound
from holdfast.model.work.ids import TaskId
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.submitting.replay import replay
from holdfast.store.database import Database
from holdfast.store.reads.work import dead_letters
from holdfast.store.reads.work.dead_letters import DeadLetterFilter
from tests.world import World


async def letters_of(database: Database, page_size: int = 100, **wanted: Any) -> list[str]:
    """List the ids of dead letters, page by page."""
    found: list[str] = []
    after = dead_letters.FIRST_DEAD_LETTER
    for _ in range(100):
        async with database.transaction() as tx:
            page = await dead_letters.list_dead_letters(
                tx, DeadLetterFilter(**wanted), after=after, page_size=page_size
            )
        found += [str(row.id) for row in page.rows]
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def bury(world: World, error_class: str = "PermanentError", **fields: Any) -> TaskId:
    """Submit a task and let it fail for good."""
    job_id = await world.submit([1], **fields)
    claim = await world.claim_by_id(TaskId(job_id, 0))
    await world.start(claim)
    await world.fail(claim, error_class)
    return claim.task_id


async def bury_many(world: World, count: int) -> list[TaskId]:
    """Make dead letters, the oldest first."""
    await world.submit(list(range(count)), max_attempts=1)
    claims = sorted(await world.claim(count), key=lambda claim: claim.task_id)
    for claim in claims:
        await world.fail(claim)
        await world.clock.advance(1)
    return [claim.task_id for claim in claims]


async def test_dead_letters_are_listed_by_id_and_by_what_they_say(
    world: World, database: Database
) -> None:
    first = await bury(world, type="mail")
    second = await bury(world, "ValidationError", queue="other")
    third = await bury(world, type="mail")
    for page_size in (1, 100):
        assert await letters_of(database, page_size) == [str(first), str(second), str(third)]
    assert await letters_of(database, reason_code="validation_failed") == [str(second)]
    assert await letters_of(database, stage="exec", type="mail") == [str(first), str(third)]
    assert await letters_of(database, queue="other") == [str(second)]
    assert await letters_of(database, job_id=second.job_id) == [str(second)]
    assert await letters_of(database, job_id=999) == []


async def test_settled_dead_letters_are_listed_when_asked_for(
    world: World, database: Database
) -> None:
    letters = [await bury(world) for _ in range(3)]
    [replayed] = await replay(world.ledger, [letters[0]], actor="operator")
    await discard(world.ledger, [letters[1]], actor="operator")
    assert await letters_of(database) == [str(letters[2])]
    assert await letters_of(database, open_only=False) == [str(letter) for letter in letters]
    async with database.transaction() as tx:
        rows = [await dead_letters.get_dead_letter(tx, letter) for letter in letters]
    assert [row.replayed_as for row in rows] == [replayed.job_id, None, None]
    assert [row.discarded_by for row in rows] == [None, "operator", None]


async def test_a_dead_letter_says_what_became_of_its_task(world: World, database: Database) -> None:
    job_id = await world.submit([{"a": 1}])
    await dead_letter_task(world.ledger, TaskId(job_id, 0), actor="operator")
    async with database.transaction() as tx:
        row = await dead_letters.get_dead_letter(tx, TaskId(job_id, 0))
        with pytest.raises(NotFound, match=f"there is no dead letter {job_id}.1"):
            await dead_letters.get_dead_letter(tx, TaskId(job_id, 1))
    assert (row.reason_code, row.attempts, row.input) == ("policy_violation", 0, '{"a":1}')


async def test_the_newest_open_dead_letters_are_counted_and_read(
    world: World, database: Database
) -> None:
    letters = await bury_many(world, 5)
    await discard(world.ledger, letters[4:], actor="ann")
    async with database.transaction() as tx:
        found = await dead_letters.read_letters(tx, DeadLetterFilter())
        assert [row.id for row in found.newest] == letters[3::-1]
        assert (found.cells, found.is_whole) == ([("exhausted_retries", "exec", 4)], True)
        few = await dead_letters.read_letters(tx, DeadLetterFilter(), count_max=2)
        assert [row.id for row in few.newest] == [letters[3], letters[2]]
        assert (few.cells, few.is_whole) == (found.cells, False)
        cut = await dead_letters.read_letters(tx, DeadLetterFilter(), examined_max=3)
        assert [row.id for row in cut.newest] == letters[3:0:-1]
        assert (cut.cells, cut.is_whole) == ([("exhausted_retries", "exec", 3)], False)
        none = await dead_letters.read_letters(tx, DeadLetterFilter(type="none"), examined_max=2)
        assert none == ([], [], False)


async def test_the_open_dead_letters_of_one_job_are_not_crowded_out_by_newer_ones(
    world: World, database: Database
) -> None:
    first = await bury(world)
    [newer, *_] = await bury_many(world, 4)
    of_job = DeadLetterFilter(job_id=first.job_id)
    async with database.transaction() as tx:
        found = await dead_letters.read_letters(tx, of_job, examined_max=1, count_max=1)
        assert [row.id for row in found.newest] == [first]
        assert (found.cells, found.is_whole) == ([("exhausted_retries", "exec", 1)], True)
        of_type = DeadLetterFilter(job_id=first.job_id, type="none")
        assert await dead_letters.read_letters(tx, of_type) == ([], [], True)
    assert newer.job_id != first.job_id


async def test_open_dead_letters_are_counted_by_reason_up_to_a_bound(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, *_ = [await bury(world) for _ in range(4)]
    await world.clock.fetch(
        "update holdfast.dead_letters set discarded_at = holdfast.now(), discarded_by = 'eve' "
        "where job_id = $1",
        settled.job_id,
    )

    async def count() -> dict[str, int]:
        async with database.transaction() as tx:
            return await dead_letters.count_open_letters(tx)

    assert sum((await count()).values()) == 3
    monkeypatch.setattr(dead_letters, "LETTERS_COUNTED_MAX", 2)
    assert sum((await count()).values()) == 2


async def test_the_ids_of_open_dead_letters_are_listed_up_to_a_bound(
    world: World, database: Database
) -> None:
    first, second = await bury_many(world, 3), await bury_many(world, 2)
    await discard(world.ledger, first[:1], actor="ann")

    async def ids(count_max: int = 10, **wanted: Any) -> list[TaskId]:
        async with database.transaction() as tx:
            wanted_letters = DeadLetterFilter(**wanted)
            return await dead_letters.list_open_ids(tx, wanted_letters, count_max=count_max)

    assert await ids() == [*first[1:], *second]
    assert await ids(3) == [*first[1:], second[0]]
    assert await ids(job_id=second[0].job_id) == second
    assert await ids(reason_code="exhausted_retries", queue="q", stage="exec") == await ids()
    assert await ids(type="none") == []
