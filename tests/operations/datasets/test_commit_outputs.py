"""Outputs are committed with the success of their task: once, whole, or not at all."""

from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict, Refused, TooLarge
from holdfast.ledger.keys import request_key
from holdfast.model.datasets import ENTRIES_MAX, OutputEntry
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending import complete as completing
from holdfast.operations.ending.complete import Completed, Completion, complete
from tests.audits import assert_audit_is_silent
from tests.datasets import Library, an_entry
from tests.world import World, fence_of


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset with one open version."""
    library = Library(world)
    await library.create()
    return library


async def test_entries_are_committed_with_the_success(world: World, library: Library) -> None:
    job_id = await library.submit()
    [claim] = await world.claim()
    entry = an_entry("2026-11-15", size_bytes=7, checksum="sha256:1", metadata={"rows": 3})
    assert (await library.commit(claim, entry)).accepted
    [row] = await world.clock.fetch("select * from holdfast.dataset_entries")
    assert dict(row) | {"committed_at": None} == {
        "dataset": "events", "version": 1, "key": "2026-11-15", "partition_key": "2026-11-15",
        "uri": "s3://bucket/2026-11-15", "size_bytes": 7, "checksum": "sha256:1",
        "metadata": '{"rows": 3}', "job_id": job_id, "task_index": 0, "attempt": 0,
        "committed_at": None, "copied_from": None,
    }  # fmt: skip
    assert (await world.task(TaskId(job_id, 0))).state == TaskState.SUCCEEDED
    await assert_audit_is_silent(world.ledger.database)


async def test_a_repeat_is_answered_as_the_first_time(world: World, library: Library) -> None:
    await library.submit()
    [claim] = await world.claim()
    await library.commit(claim, an_entry())
    before = await world.dump()
    assert (await library.commit(claim, an_entry())).accepted
    assert (await library.commit(claim, an_entry("other"))).accepted
    assert await world.dump() == before


async def test_a_failed_attempt_commits_nothing(world: World, library: Library) -> None:
    job_id = await library.submit(max_retries_failure=1)
    [claim] = await world.claim()
    with pytest.raises(Invalid, match="outputs: go with status succeeded only"):
        await world.complete(claim, "failed", outputs=(an_entry(),))
    await world.fail(claim)
    assert await library.read() == {}
    with pytest.raises(LeaseConflict):
        await library.commit(claim, an_entry())
    await world.pass_time(60)
    [again] = await world.claim()
    await library.commit(again, an_entry())
    assert await library.read() == {"p": "s3://bucket/p"}
    [row] = await world.clock.fetch(
        "select attempt from holdfast.commits where job_id = $1", job_id
    )
    assert row[0] == 1
    await assert_audit_is_silent(world.ledger.database)


async def test_a_stranger_commits_nothing_and_is_told_so(world: World, library: Library) -> None:
    await library.submit()
    [claim] = await world.claim()
    await world.start(claim)
    before = await world.dump()
    for stranger in (claim._replace(lease_token=uuid4()), claim._replace(attempt=1)):
        with pytest.raises(LeaseConflict):
            await library.commit(stranger, an_entry())
    assert await world.dump() == before
    assert (await library.commit(claim, an_entry())).accepted


async def test_a_killed_attempt_commits_nothing(world: World, library: Library) -> None:
    job_id = await library.submit()
    [claim] = await world.claim()
    await world.cancel_job(job_id, "hard")
    answer = await library.commit(claim, an_entry())
    assert answer == Completed(claim.task_id, accepted=False)
    assert await library.read() == {}
    await assert_audit_is_silent(world.ledger.database)


async def test_one_that_was_asked_to_stop_may_still_commit(world: World, library: Library) -> None:
    job_id = await library.submit()
    [claim] = await world.claim()
    await world.cancel_job(job_id, "soft")
    assert (await library.commit(claim, an_entry())).accepted
    assert await library.read() == {"p": "s3://bucket/p"}


async def test_the_same_again_is_ignored_and_another_is_refused(
    world: World, library: Library
) -> None:
    await library.write(an_entry("a", checksum="1"))
    await library.write(an_entry("a", checksum="1"), an_entry("b"))
    [rows] = await world.clock.fetch(
        "select array_agg(entries order by job_id) from holdfast.commits"
    )
    assert rows[0] == [1, 1]
    await library.submit()
    [claim] = await world.claim()
    await world.start(claim)  # or it would not be ended by the first statement
    before = await world.dump()
    with pytest.raises(Invalid, match=r"outputs\[1\]\.key: version 1 of events has another entry"):
        await library.commit(claim, an_entry("c"), an_entry("a", checksum="2"))
    assert await world.dump() == before
    # Told otherwise, the attempt has failed by that.
    await world.complete(claim, "failed", error_class="PermanentError", stage="commit", error="x")
    assert (await world.task(claim.task_id)).finished
    await assert_audit_is_silent(world.ledger.database)


async def test_a_replacement_takes_the_place_of_its_partition(
    world: World, library: Library
) -> None:
    await library.write(an_entry("p", "old", key="1"), an_entry("p", "old", key="2"), an_entry("q"))
    await library.write(
        an_entry("p", "new", key="2"), an_entry("p", "new", key="3"), mode="replace"
    )
    assert await library.read() == {"2": "new", "3": "new", "q": "s3://bucket/q"}
    await library.submit("replace")
    [claim] = await world.claim()
    with pytest.raises(Invalid, match=r"outputs\[0\]\.key"):
        await library.commit(claim, an_entry("r", key="q"))  # a key of another partition
    await assert_audit_is_silent(world.ledger.database)


async def test_completions_of_one_batch_do_not_get_in_each_others_way(
    world: World, library: Library
) -> None:
    await library.submit("replace", inputs=[1, 2, 3])
    await library.submit("append", inputs=[1, 2])
    claims = sorted(await world.claim(5), key=lambda claim: claim.task_id)
    entries = [
        [an_entry("p", "first")], [an_entry("p", "second")], [an_entry("q", "third")],
        [an_entry("r", "fourth")], [an_entry("r", "fifth")],
    ]  # fmt: skip
    answers = await complete(
        world.ledger,
        [
            Completion(fence_of(claim), "succeeded", outputs=tuple(each))
            for claim, each in zip(claims, entries, strict=True)
        ],
    )
    assert [isinstance(answer, Completed) for answer in answers] == [True] * 4 + [False]
    assert await library.read() == {"p": "second", "q": "third", "r": "fourth"}
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (an_entry(dataset="others"), r"outputs\[0\]\.dataset: others is not among this job's"),
        (an_entry(""), r"outputs\[0\]\.partition_key: is empty"),
        (an_entry("p" * 513), r"outputs\[0\]\.partition_key: 513 characters is over"),
        (an_entry("p", "u" * 4097), r"outputs\[0\]\.uri"),
        (an_entry("p\0"), r"outputs\[0\]\.partition_key: contains a NUL"),
        (an_entry(key=""), r"outputs\[0\]\.key: is empty"),
        (an_entry(size_bytes=-1), r"outputs\[0\]\.size_bytes"),
        (an_entry(checksum="c" * 257), r"outputs\[0\]\.checksum"),
        (an_entry(metadata={"x": "y" * 17_000}), r"outputs\[0\]\.metadata"),
        (an_entry(dataset="a/b"), r"outputs\[0\]\.dataset"),
    ],
)
async def test_what_cannot_be_committed_changes_nothing(
    world: World, library: Library, entry: OutputEntry, problem: str
) -> None:
    await library.submit()
    [claim] = await world.claim()
    await world.start(claim)  # or it would not be ended by the first statement
    before = await world.dump()
    with pytest.raises(Refused, match=problem):
        await library.commit(claim, entry)
    assert await world.dump() == before
    assert (await library.commit(claim, an_entry())).accepted


async def test_a_job_without_outputs_commits_none(world: World, library: Library) -> None:
    await world.submit()
    [claim] = await world.claim()
    with pytest.raises(Invalid, match="declares no outputs"):
        await library.commit(claim, an_entry())
    assert (await world.succeed(claim)).accepted


async def test_a_version_that_was_sealed_by_force_takes_nothing_more(
    world: World, library: Library
) -> None:
    await library.submit()
    [claim] = await world.claim()
    await world.start(claim)
    await library.cut_over(1, force=True)
    before = await world.dump()
    with pytest.raises(
        Invalid, match=r"outputs\[0\]\.dataset: version 1 of dataset events is sealed"
    ):
        await library.commit(claim, an_entry())
    assert await world.dump() == before


async def test_too_many_entries_are_refused_and_many_are_parted(
    world: World, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completing, "OUTPUTS_PER_WRITE_MAX", 3)
    await library.submit(inputs=[1, 2, 3])
    claims = await world.claim(3)
    with pytest.raises(TooLarge, match="outputs: 10001 entries is over"):
        await library.commit(claims[0], *[an_entry(str(n)) for n in range(ENTRIES_MAX + 1)])
    answers = await complete(
        world.ledger,
        [
            Completion(
                fence_of(claim), "succeeded", outputs=tuple(an_entry(f"{n}{k}") for k in range(2))
            )
            for n, claim in enumerate(claims)
        ],
    )
    assert all(isinstance(answer, Completed) for answer in answers)
    assert len(await library.read()) == 6


async def test_a_refusal_is_told_again_under_its_key(world: World, library: Library) -> None:
    await library.submit()
    [claim] = await world.claim()
    items = [Completion(fence_of(claim), "succeeded", outputs=(an_entry(dataset="others"),))]
    keyed = request_key("complete", "w1", "k", request=items)
    first = await complete(world.ledger, items, keyed)
    [again] = await complete(world.ledger, items, keyed)
    assert isinstance(again, Invalid)
    assert str(again) == str(first[0])
