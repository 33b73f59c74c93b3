"""Jobs are bound to versions when they are stored, and to no other afterwards."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast.errors import Invalid, KeyReused
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.submitting import chunk
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.replay import Manner, replay
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import LockTimeout
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.datasets import Library, an_entry
from tests.world import World


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset with two open versions."""
    library = Library(world)
    await library.create(versions=2)
    return library


async def bound(world: World, job_id: int) -> list[tuple[str, int, str]]:
    """Read which versions a job writes; its stored spec must say the same."""
    rows = await world.clock.fetch(
        "select dataset, version, mode from holdfast.job_outputs where job_id = $1 order by 1",
        job_id,
    )
    found = [tuple(row) for row in rows]
    async with world.ledger.database.transaction() as tx:
        spec = (await world.ledger.specs.load(tx, [job_id]))[job_id].spec
    assert sorted((o.dataset, o.version, o.mode) for o in spec.outputs) == found
    return found


async def test_the_newest_open_version_a_named_one_or_a_new_one(
    world: World, library: Library
) -> None:
    await library.create("users")
    outputs = [{"dataset": "users", "mode": "replace"}, {"dataset": "events"}]
    both = await world.submit(outputs=outputs)
    assert await bound(world, both) == [("events", 2, "append"), ("users", 1, "replace")]
    assert await bound(world, await library.submit(version=1)) == [("events", 1, "append")]
    job_id = await library.submit(version="new")
    assert await bound(world, job_id) == [("events", 3, "append")]
    [row] = await world.clock.fetch(
        "select version from holdfast.dataset_versions where opened_by_job = $1", job_id
    )
    assert row[0] == 3
    [claim] = await world.claim()
    assert claim.task_id.job_id == both
    assert await bound(world, await library.submit()) == [("events", 3, "append")]
    await assert_audit_is_silent(world.ledger.database)


async def test_who_submits_a_job_opens_its_version(world: World, library: Library) -> None:
    spec = parse_spec(
        {
            "entrypoint": {"function": "a:b"},
            "queue": "q",
            "owner": "bob",
            "outputs": [{"dataset": "events", "version": "new"}],
        }
    )
    await submit_batch(world.ledger, [Submission(spec, actor="root"), Submission(spec)])
    rows = await world.clock.fetch(
        "select created_by from holdfast.dataset_versions where version > 2 order by version"
    )
    assert [row[0] for row in rows] == ["root", "bob"]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ({"dataset": "others"}, r"outputs\[0\]\.dataset: there is no dataset others; create it"),
        ({"dataset": "events", "version": 9}, r"outputs\[0\]\.version: dataset events has no"),
        ({"dataset": "events", "version": 1}, r"outputs\[0\]\.version: version 1 .* is sealed"),
        ({"dataset": "empty"}, r"outputs\[0\]\.version: dataset empty has no open version"),
        ({"dataset": "a/b"}, r"outputs\[0\]\.dataset: 'a/b' is not such a name"),
    ],
)
async def test_what_cannot_be_bound_is_refused(
    world: World, library: Library, output: dict[str, Any], problem: str
) -> None:
    await library.create("empty", 0)
    await library.cut_over(1)
    before = await world.dump()
    with pytest.raises(Invalid, match=problem):
        await world.submit(outputs=[output])
    assert await world.dump() == before


async def submit_patiently(library: Library, **fields: Any) -> int:
    """Submit as a server does: again, when a row was held for too long."""
    for _ in range(20):
        with suppress(LockTimeout):
            return await library.submit(**fields)
    raise AssertionError("a row is held for ever")


async def test_a_repeat_opens_no_second_version(world: World, library: Library) -> None:
    fields = {"idempotency_key": "k", "version": "new"}
    jobs = await asyncio.gather(*(submit_patiently(library, **fields) for _ in range(8)))
    assert len(set(jobs)) == 1
    assert await world.count("dataset_versions") == 3
    with pytest.raises(KeyReused):
        await library.submit(priority=1, **fields)
    assert await world.count("dataset_versions") == 3
    keyed = await library.submit(idempotency_key="other", version=1)
    await library.cut_over(1, force=True)
    assert await library.submit(idempotency_key="other", version=1) == keyed


async def test_a_batch_that_is_refused_leaves_no_version(world: World, library: Library) -> None:
    def job(version: Any) -> Submission:
        output = {"dataset": "events", "version": version}
        fields = {"entrypoint": {"function": "app:work"}, "queue": "q", "outputs": [output]}
        return Submission(parse_spec(fields))

    with pytest.raises(Invalid, match="has no version 9"):
        await submit_batch(world.ledger, [job("new"), job(9)])
    assert await world.count("dataset_versions") == 2
    await submit_batch(world.ledger, [job("new"), job("new")])
    assert await world.count("dataset_versions") == 4


async def test_a_large_submission_is_bound_when_it_is_shown(
    world: World, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_chunks(monkeypatch, 2)
    job_id = await library.submit(version="new", inputs=[1, 2, 3])
    assert await bound(world, job_id) == [("events", 3, "append")]
    show = chunk.show_hidden

    async def seal_first(*arguments: Any) -> Any:
        await world.clock.fetch(
            "update holdfast.dataset_versions set state = 'sealed', cut_over_at = holdfast.now(), "
            "entries = 0, size_bytes = 0 where version = 2"
        )
        return await show(*arguments)

    monkeypatch.setattr(chunk, "show_hidden", seal_first)
    with pytest.raises(Invalid, match="version 2 of dataset events is sealed"):
        await library.submit(version=2, inputs=[1, 2, 3])
    with pytest.raises(Invalid, match="has no version 9"):
        await library.submit(version=9, inputs=[1, 2, 3])
    shown = await world.clock.fetch("select from holdfast.jobs where submitted_at is not null")
    assert len(shown) == 1
    assert await world.count("dataset_versions") == 3


async def test_a_replay_writes_the_version_of_the_first_time(
    world: World, library: Library
) -> None:
    job_id = await library.submit(version=1, inputs=[1])
    [claim] = await world.claim()
    await world.fail(claim, "PermanentError")
    [replayed] = await replay(world.ledger, [claim.task_id], actor="ann", dry_run=False)
    assert replayed.job_id is not None
    assert await bound(world, replayed.job_id) == await bound(world, job_id)
    [again] = await world.claim()
    await library.commit(again, an_entry())
    await library.submit(version=1, inputs=[1])
    [last] = await world.claim()
    await world.fail(last, "PermanentError")
    await library.cut_over(1)
    before = await world.dump()
    problem = "rebind_outputs: version 1 of dataset events is sealed; set this to write the newest"
    with pytest.raises(Invalid, match=problem):
        await replay(world.ledger, [last.task_id], actor="ann", dry_run=False)
    assert await world.dump() == before
    [replayed] = await replay(world.ledger, [last.task_id], actor="ann", manner=Manner(rebind=True))
    assert replayed.job_id is not None
    assert await bound(world, replayed.job_id) == [("events", 2, "append")]


@pytest.mark.parametrize(("version", "chosen"), [(None, 3), ("new", 4)])
async def test_a_replay_after_the_cut_over_is_bound_as_was_declared(
    world: World, library: Library, version: Any, chosen: int
) -> None:
    await library.create("users")
    named = {"dataset": "users", "version": 1}
    job_id = await world.submit(outputs=[named, {"dataset": "events", "version": version}])
    [(_, first, _), users] = await bound(world, job_id)
    await world.fail((await world.claim())[0], "PermanentError")
    # Twice: the replay of a replay knows the declaration, too.
    [replayed] = await replay(world.ledger, [TaskId(job_id, 0)], actor="ann")
    assert replayed.job_id is not None
    assert await bound(world, replayed.job_id) == [("events", first, "append"), users]
    await world.fail((await world.claim())[0], "PermanentError")
    if version is None:
        await library.open()
    await library.cut_over(first)
    [again] = await replay(world.ledger, [TaskId(replayed.job_id, 0)], actor="ann")
    assert again.job_id is not None
    assert await bound(world, again.job_id) == [("events", chosen, "append"), users]
    await assert_audit_is_silent(world.ledger.database)


async def test_who_is_refused_leaves_no_mark_on_a_version(world: World, library: Library) -> None:
    query = "select version from holdfast.dataset_versions where may_be_replaced order by version"
    with pytest.raises(Invalid, match="there is no job"):
        await library.submit("replace", depends_on=["999"])
    assert await world.clock.fetch(query) == []
    await library.submit("replace")
    await library.submit("replace", version="new")
    assert [row[0] for row in await world.clock.fetch(query)] == [2, 3]
