"""Notes beside the log: stored with their attempt, for a while, and never part of the order."""

from datetime import timedelta
from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.fence import Fence
from holdfast.operations.notes import (
    TIME_TO_LIVE,
    Note,
    add_notes,
    add_user_event,
    check_note,
    check_progress,
    note_progress,
)
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.store.specs import SpecCache
from tests.placed_world import PlacedWorld
from tests.world import World, fence_of


async def test_a_note_belongs_to_its_attempt_and_has_a_time_to_live(world: World) -> None:
    await world.submit(max_retries_failure=1, backoff={"base": 0.0})
    [first] = await world.claim()
    await world.fail(first)
    await world.run_chores()
    [second] = await world.claim()
    await world.complete(second, "succeeded", events=(Note("progress", '{"done":1}'),))
    [note] = await world.clock.fetch("select * from holdfast.notes")
    kept = (note["job_id"], note["task_index"], note["attempt"], note["kind"], note["payload"])
    assert kept == (*second.task_id, 1, "user:progress", '{"done":1}')
    assert note["expires_at"] - note["ts"] == TIME_TO_LIVE == timedelta(days=7)


async def test_notes_write_no_event(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    before = await world.count("events")
    async with ledger.database.transaction() as tx:
        await add_notes(tx, [(mine.task_id, mine.attempt, Note("a")) for _ in range(3)])
    assert (await world.count("notes"), await world.count("events")) == (3, before)


async def test_no_notes_is_no_statement(ledger: Ledger, world: World) -> None:
    async with ledger.database.transaction() as tx:
        await add_notes(tx, [])
    assert await world.count("notes") == 0


async def test_a_running_attempt_writes_an_event_once_under_its_key(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    event = Note("loaded", '{"rows":3}')
    for key in ("k", "k", None):
        await add_user_event(ledger, fence_of(mine), event, idempotency_key=key)
    rows = await world.clock.fetch("select kind, payload::text from holdfast.notes")
    assert [tuple(row) for row in rows] == [("user:loaded", '{"rows":3}')] * 2


async def test_an_attempt_that_has_ended_or_a_stranger_writes_no_event(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    stranger = fence_of(mine)._replace(lease_token=uuid4())
    await world.succeed(mine)
    for fence in (fence_of(mine), stranger):
        with pytest.raises(LeaseConflict):
            await add_user_event(ledger, fence, Note("late"))
    with pytest.raises(Invalid):
        await add_user_event(ledger, stranger, Note(""))
    assert await world.count("notes") == 0


def test_a_note_that_cannot_be_stored_is_refused() -> None:
    limits = Limits(text_length_max=5, input_bytes_max=5)
    check_note(Note("fine", "12345"), limits)
    for field, note in (
        ("events.kind", Note("\x00")),
        ("events.payload", Note("a", "{")),
        ("events.payload", Note("a", '"\\u0000"')),
    ):
        with pytest.raises(Invalid) as refused:
            check_note(note, Limits())
        assert refused.value.field == field
    for note in (Note("longer"), Note("a", "123456")):
        with pytest.raises(TooLarge):
            check_note(note, limits)


async def test_progress_is_noted_for_whoever_holds_a_lease(ledger: Ledger, world: World) -> None:
    await world.submit(inputs=[1, 2])
    mine, ending = await world.claim(2)
    await world.cancel_task(ending.task_id, "hard")
    stranger = Fence(mine.task_id, mine.attempt, uuid4())
    before = await world.count("events")
    await note_progress(
        ledger,
        [
            (fence_of(mine), 0.25, 'a "quarter"'),
            (stranger, 0.9, "lies"),
            (fence_of(ending), 1.0, None),
            (fence_of(mine), 0, None),
        ],
    )
    notes = await world.clock.fetch(
        "select task_index, attempt, kind, payload from holdfast.notes order by id"
    )
    assert [tuple(note) for note in notes] == [
        (mine.task_id.task_index, 0, "progress", '{"fraction":0.25,"message":"a \\"quarter\\""}'),
        (ending.task_id.task_index, 0, "progress", '{"fraction":1.0,"message":null}'),
        (mine.task_id.task_index, 0, "progress", '{"fraction":0,"message":null}'),
    ]
    assert await world.count("events") == before


async def test_no_progress_is_nothing_to_note(ledger: Ledger, world: World) -> None:
    await note_progress(ledger, [])
    assert await world.count("notes") == 0


async def test_progress_that_cannot_be_stored_names_its_field_and_notes_nothing(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    good = (fence_of(mine), 0.5, None)
    bad: list[tuple[str, float, str | None]] = [
        ("progress.fraction", -0.1, None),
        ("progress.fraction", 1.1, None),
        ("progress.fraction", float("nan"), None),
        ("progress.message", 0.5, "a\x00b"),
        ("progress.message", 0.5, "x" * (ledger.limits.text_length_max + 1)),
    ]
    for field, fraction, message in bad:
        with pytest.raises(Invalid) as refused:
            check_progress(fraction, message, ledger.limits)
        assert refused.value.field == field
        with pytest.raises(Invalid):
            await note_progress(ledger, [good, (fence_of(mine), fraction, message)])
    assert await world.count("notes") == 0


# Heartbeats: of claimed and of placed work, and nothing where nobody asked for them


async def kinds(world: World | PlacedWorld, job_id: int) -> list[str]:
    rows = await world.clock.fetch(
        "select kind from holdfast.notes where job_id = $1 order by id", job_id
    )
    return [row[0] for row in rows]


async def test_the_renewals_of_a_verbose_job_are_noted_and_forgotten_in_time(world: World) -> None:
    verbose, quiet = await world.submit(verbose_events=True), await world.submit()
    for mine in await world.claim(2):
        await world.renew(mine)
    assert await kinds(world, verbose) == ["heartbeat", "lease_renewed"]
    assert await kinds(world, quiet) == []
    await world.clock.advance(8 * 86_400)
    await prune(world.ledger, Retention())
    assert await kinds(world, verbose) == []


async def test_a_server_that_has_not_met_the_job_knows_it_too(world: World) -> None:
    job_id = await world.submit(verbose_events=True)
    [mine] = await world.claim()
    world.ledger.specs = SpecCache(jobs_max=1)
    await world.renew(mine)
    assert await kinds(world, job_id) == ["heartbeat", "lease_renewed"]


async def test_a_refused_renewal_leaves_no_note(world: World) -> None:
    job_id = await world.submit(verbose_events=True)
    [mine] = await world.claim()
    await world.succeed(mine)
    with pytest.raises(LeaseConflict):
        await world.renew(mine)
    assert await kinds(world, job_id) == []


async def test_answers_of_placed_work_are_noted(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(verbose_events=True)
    await cluster.placed(job_id)
    before = await kinds(cluster, job_id)
    await cluster.beat("w1")
    assert (await kinds(cluster, job_id))[len(before) :] == ["heartbeat", "lease_renewed"]
