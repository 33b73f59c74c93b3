"""Jobs on a real ledger: one, and lists of them by any of their marks, by state, by time."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import UNSUCCESSFUL_STATES, JobState, TaskState
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.rules.reading.fingerprint import fingerprint
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.pages import EXAMINED_MAX
from holdfast.store.reads.work import jobs, tasks
from holdfast.store.reads.work.jobs import JobFilter
from holdfast.store.statements import load_statements
from tests.store.raw import Raw
from tests.world import World


async def listed(database: Database, page_size: int = 100, **wanted: Any) -> list[int]:
    """List the ids of all jobs that are wanted, page by page."""
    found: list[int] = []
    before = 2**63 - 1
    for _ in range(1000):
        async with database.transaction() as tx:
            page = await jobs.list_jobs(tx, JobFilter(**wanted), before=before, page_size=page_size)
        found += [job.job_id for job in page.rows]
        if page.next_after is None:
            return found
        before = page.next_after
    raise AssertionError("the list has no end")


async def test_a_job_is_read_with_its_counts_and_spec(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2, 3], name="crawl", labels={"team": "search"}, priority=5)
    [claim] = await world.claim()
    await world.start(claim)
    async with database.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        whole = await jobs.get_job_with_spec(tx, job_id)
    assert (job.name, job.type, job.queue, job.priority) == ("crawl", "crawl", "q", 5)
    assert (job.num_tasks, job.running, job.pending) == (3, 1, 2)
    assert TaskState(job.state) is TaskState.RUNNING
    assert job.started_at is not None
    assert job.finished_at is None
    assert job.spec is None
    assert whole.spec is not None
    assert '"crawl"' in whole.spec
    assert whole._replace(spec=None) == job


async def test_a_job_that_is_still_arriving_does_not_exist(
    lasting: Raw, database: Database
) -> None:
    hidden = await lasting.insert_job(shown=False)
    await lasting.insert_task(hidden)
    async with database.transaction() as tx:
        for read in (jobs.get_job, jobs.get_job_with_spec):
            with pytest.raises(NotFound, match=f"there is no job {hidden}"):
                await read(tx, hidden)
        with pytest.raises(NotFound, match=f"there is no task {hidden}.0"):
            await tasks.get_task(tx, TaskId(hidden, 0))
        with pytest.raises(NotFound, match=f"there is no task {hidden}.0"):
            await tasks.get_result(tx, TaskId(hidden, 0))


async def test_jobs_are_listed_newest_first_and_pages_join(
    world: World, database: Database
) -> None:
    job_ids = [await world.submit() for _ in range(7)]
    for page_size in (1, 2, 3, 7, 100):
        assert await listed(database, page_size) == job_ids[::-1]


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ({"type": "mail"}, [3, 0]),
        ({"type": "mai"}, []),
        ({"owner": "eve"}, [4, 1]),
        ({"queue": "fast"}, [4, 2]),
        ({"queue": "fas"}, []),
        ({"name": "nightly"}, [2, 1]),
        ({"name": "nightly-b"}, [2]),
        ({"name": "Nightly"}, []),
        ({"name": "%"}, []),
        ({"name": "é"}, [3]),
        ({"label": ("team", "search")}, [4, 0]),
        ({"label": ("team", "sea")}, []),
        ({"label": ("search", "team")}, []),
        ({"label": ("env", "prod")}, [4]),
        ({"label": ("team", "search"), "queue": "fast"}, [4]),
        ({"type": "mail", "owner": "eve"}, []),
        ({"owner": "eve", "name": "nightly"}, [1]),
        ({"queue": "fast", "type": "other"}, [4, 2]),
        ({"states": frozenset({TaskState.PENDING}), "type": "mail"}, [3]),
        ({"states": frozenset({TaskState.PENDING}), "owner": "eve"}, [4, 1]),
        (
            {
                "states": frozenset({TaskState.PENDING}),
                "queue": "fast",
                "type": "other",
                "owner": "eve",
            },
            [4],
        ),
        ({"states": frozenset({TaskState.PENDING}), "queue": "fas"}, []),
        ({"label": ("team", "search"), "type": "mail"}, [0]),
        ({"states": frozenset({TaskState.SUCCEEDED})}, [0]),
        ({"states": frozenset({TaskState.RUNNING})}, []),
        ({"states": frozenset({TaskState.ASSIGNED})}, []),
        ({"states": frozenset({TaskState.SUCCEEDED}), "name": "first"}, [0]),
    ],
)
async def test_a_filter_finds_what_it_asks_for(
    wanted: dict[str, Any], places: list[int], world: World, database: Database
) -> None:
    specs: list[dict[str, Any]] = [
        {"name": "first", "type": "mail", "labels": {"team": "search"}, "queue": "once"},
        {"name": "nightly-a", "type": "other", "owner": "eve"},
        {"name": "nightly-b", "type": "other", "queue": "fast"},
        {"name": "évening", "type": "mail"},
        {"name": "z", "type": "other", "owner": "eve", "queue": "fast"}
        | {"labels": {"team": "search", "env": "prod"}},
    ]
    job_ids = [await world.submit(**spec) for spec in specs]
    [claim] = await world.claim(queue="once")
    await world.start(claim)
    await world.succeed(claim)
    for page_size in (1, 100):
        assert await listed(database, page_size, **wanted) == [job_ids[p] for p in places]


async def test_children_are_found_by_their_parent(world: World, database: Database) -> None:
    parent, other = await world.submit(), await world.submit()
    children = [await world.submit_child(parent) for _ in range(3)]
    await world.submit_child(other)
    for page_size in (1, 3):
        assert await listed(database, page_size, parent_job_id=parent) == children[::-1]
    assert await listed(database, parent_job_id=children[0]) == []


async def test_a_prefix_of_more_names_than_can_be_walked_is_found_all_the_same(
    ledger: Ledger, database: Database
) -> None:
    count = jobs.NAMES_MAX + 20
    submissions = [
        Submission(parse_spec({"entrypoint": {"shell": "x"}, "name": f"run-{n:05}", "queue": "q"}))
        for n in range(count)
    ]
    for start in range(0, count, 500):
        await submit(ledger, submissions[start : start + 500])
    async with database.transaction() as tx:
        newest = await jobs.list_jobs(tx, JobFilter(name="run-"), page_size=3)
        some = await jobs.list_jobs(tx, JobFilter(name="run-0000"), page_size=100)
    assert [job.name for job in newest.rows] == [f"run-{n:05}" for n in (1019, 1018, 1017)]
    assert [job.name for job in some.rows] == [f"run-0000{n}" for n in range(9, -1, -1)]
    assert len(await listed(database, name="run-")) == count


async def test_a_long_value_of_a_label_is_found(ledger: Ledger, database: Database) -> None:
    value = "x" * 60_000
    spec = parse_spec({"entrypoint": {"shell": "x"}, "labels": {"note": value}, "queue": "q"})
    submitted = await submit_one(ledger, Submission(spec))
    assert await listed(database, label=("note", value)) == [submitted.job_id]
    assert await listed(database, label=("note", value[1:])) == []


async def test_a_label_that_only_looks_the_same_is_not_taken_for_another(
    world: World, lasting: Raw, database: Database
) -> None:
    job_id = await world.submit(labels={"team": "search"})
    await lasting.run(
        "insert into holdfast.job_labels values (holdfast.label_hash('team', 'ads'), $1)", job_id
    )
    assert await listed(database, label=("team", "ads")) == []
    assert await listed(database, label=("team", "search")) == [job_id]


async def test_labels_go_with_their_job(lasting: Raw) -> None:
    job_id = await lasting.insert_job(shown=False, labels="""'{"a": "1", "b": "2"}'""")
    kept = await lasting.insert_job(shown=False, labels="""'{"a": "1"}'""")
    assert await lasting.value("select count(*) from holdfast.job_labels") == 3
    await lasting.run("delete from holdfast.jobs where job_id = $1", job_id)
    rows = await lasting.rows("select job_id from holdfast.job_labels")
    assert [row[0] for row in rows] == [kept]


async def test_a_job_that_is_still_arriving_is_not_listed(lasting: Raw, database: Database) -> None:
    shown = await lasting.insert_whole_job()
    await lasting.insert_job(shown=False, type="'t'", name="'n'")
    filters: list[dict[str, Any]] = [
        {}, {"type": "t"}, {"owner": "o"}, {"name": "n"},
        {"states": frozenset({TaskState.PENDING})},
    ]  # fmt: skip
    for wanted in filters:
        assert await listed(database, **wanted) == [shown]


async def states_of(world: World) -> list[tuple[int, int]]:
    """Read which jobs are kept by state: all that have appeared and did not succeed."""
    kept = await world.clock.fetch("select job_id, state from holdfast.job_states order by 1, 2")
    wanted = await world.clock.fetch(
        "select job_id, state from holdfast.jobs where state <> 4 and submitted_at is not null"
        " order by 1, 2"
    )
    assert kept == wanted
    return [tuple(row) for row in kept]


async def test_a_job_is_listed_under_its_state_until_it_succeeds(
    world: World, database: Database
) -> None:
    succeeding, failing, waiting = [
        await world.submit(max_attempts=1, on_exhausted="fail") for _ in range(3)
    ]
    assert await states_of(world) == [(succeeding, 1), (failing, 1), (waiting, 1)]
    claims = await world.claim(2)
    for claim in claims:
        await world.start(claim)
    assert await states_of(world) == [(succeeding, 3), (failing, 3), (waiting, 1)]
    assert await listed(database, states=frozenset({JobState.RUNNING})) == [failing, succeeding]
    await world.succeed(claims[0])
    await world.fail(claims[1])
    await world.cancel_job(waiting)
    assert await states_of(world) == [(failing, 5), (waiting, 6)]
    assert await listed(database, states=frozenset({JobState.FAILED})) == [failing]
    assert await listed(database, states=frozenset({JobState.KILLED})) == [waiting]
    assert await listed(database, states=frozenset({JobState.SUCCEEDED})) == [succeeding]
    assert await listed(database, states=frozenset({JobState.PENDING})) == []


async def test_a_listed_state_goes_with_its_job(lasting: Raw) -> None:
    gone, kept = await lasting.insert_job(), await lasting.insert_job()
    await lasting.run("delete from holdfast.jobs where job_id = $1", gone)
    assert await lasting.rows("select job_id from holdfast.job_states") == [(kept,)]


async def test_jobs_of_a_state_are_found_behind_any_number_of_others(
    world: World, lasting: Raw, database: Database
) -> None:
    """More than one page may look at have succeeded since: only the state leads to the few."""
    failing = await world.submit(max_attempts=1, on_exhausted="fail")
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim)
    await lasting.run(SUCCEEDED_MANY, EXAMINED_MAX + 1)
    async with database.transaction() as tx:
        page = await jobs.list_jobs(
            tx, JobFilter(states=frozenset({JobState.FAILED})), page_size=10
        )
    assert ([job.job_id for job in page.rows], page.next_after) == ([failing], None)


async def test_jobs_in_several_states_are_listed_newest_first_and_by_their_error(
    world: World, database: Database
) -> None:
    ids = [await world.submit(max_attempts=1, on_exhausted=end) for end in ("fail", "dead_letter")]
    ids += [await world.submit(max_attempts=1, on_exhausted="fail") for _ in range(3)]
    failed, dead, again, other, waiting = ids
    errors = ["row 7 of /tmp/a", "row 8 of /tmp/b", "row 9 of /tmp/c", "no such host"]
    for claim, error in zip(await world.claim(4), errors, strict=True):
        await world.complete(claim, "failed", error=error, error_class="PermanentError")
    await world.cancel_job(waiting)
    for page_size in (1, 2, 100):
        found = await listed(database, page_size, states=UNSUCCESSFUL_STATES)
        assert found == [waiting, other, again, dead, failed]
        both = frozenset({JobState.FAILED, JobState.SUCCEEDED})
        assert await listed(database, page_size, states=both) == [other, again, failed]
    alike = {"states": UNSUCCESSFUL_STATES, "fingerprint": fingerprint(None, errors[0])}
    assert await listed(database, 2, **alike) == [again, dead, failed]
    async with database.transaction() as tx:
        newest = await jobs.list_newest_errors(tx, 4)
    assert [row.error for row in newest] == errors[:0:-1], "but not that it was cancelled"


# Past the guards, which would have each of them live through its states.
SUCCEEDED_MANY = """
    with past as (select set_config('session_replication_role', 'replica', true))
    insert into holdfast.jobs (job_id, name, type, owner, queue, priority, spec, correlation_id,
        created_at, submitted_at, finished_at, state, fan_out, num_tasks, pending,
        succeeded)
    select nextval('holdfast.job_ids'), 'n', 't', 'o', 'q', 0, '{}', 'c', holdfast.now(),
           holdfast.now(), holdfast.now(), 4, false, 1, 0, 1
      from past, generate_series(1, $1)
"""


async def submit_at_times(world: World, minutes: int) -> dict[int, datetime]:
    """Submit a job each minute; tells when each was."""
    job_ids = []
    for _ in range(minutes):
        job_ids.append(await world.submit())
        await world.clock.advance(60)
    rows = await world.clock.fetch("select job_id, submitted_at from holdfast.jobs")
    return {job_id: at for job_id, at in rows if job_id in job_ids}


async def test_jobs_are_found_by_time_to_the_microsecond(world: World, database: Database) -> None:
    times = await submit_at_times(world, 9)
    ids, at = list(times), list(times.values())
    tick = timedelta(microseconds=1)
    for wanted, expected in (
        ({"submitted_from": at[3]}, ids[3:]),
        ({"submitted_from": at[3] + tick}, ids[4:]),
        ({"submitted_until": at[3]}, ids[:3]),
        ({"submitted_until": at[3] + tick}, ids[:4]),
        ({"submitted_from": at[2], "submitted_until": at[5]}, ids[2:5]),
        ({"submitted_from": at[2], "type": "none"}, []),
        ({"submitted_from": at[2], "states": frozenset({JobState.PENDING})}, ids[2:]),
        ({"submitted_from": at[8] + tick}, []),
        ({"submitted_until": at[0]}, []),
        ({"submitted_from": datetime.fromtimestamp(0, at[0].tzinfo)}, ids),
        ({"submitted_until": datetime.max.replace(tzinfo=at[0].tzinfo)}, ids),
    ):
        for page_size in (1, 100):
            assert await listed(database, page_size, **wanted) == expected[::-1], wanted


async def test_the_first_job_of_a_moment_is_found_however_ids_and_times_lie(
    world: World, database: Database
) -> None:
    """Ids have gaps, and times, and several jobs one time; each moment has its first job."""
    gaps = (0, 0, 1, 40, 0, 0, 5000, 0, 3)
    for gap in gaps:
        await world.clock.fetch(
            "select nextval('holdfast.job_ids') from generate_series(1, $1)", gap
        )
        await world.submit()
        await world.clock.advance(60)
    await world.clock.fetch(
        "update holdfast.jobs set created_at = (select min(created_at) from holdfast.jobs)"
        " where job_id < 4"
    )
    rows = await world.clock.fetch("select job_id, created_at from holdfast.jobs order by 1")
    tick = timedelta(microseconds=1)
    moments = [at + shift for _, at in rows for shift in (-tick, timedelta(), tick)]
    async with database.transaction() as tx:
        found = await tx.fetch(
            load_statements("reads/work/jobs")["find_jobs_by_time"], moments=moments
        )
    after_all = rows[-1][0] + 1
    assert [row[0] for row in found] == [
        next((job_id for job_id, at in rows if at >= moment), after_all) for moment in moments
    ]


async def test_without_any_job_no_time_has_any(database: Database) -> None:
    moment = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    assert await listed(database, submitted_from=moment, submitted_until=moment) == []


async def test_a_walk_by_time_ends_where_the_time_begins(
    world: World, lasting: Raw, database: Database
) -> None:
    """Behind lie more jobs than a page may look at, and none of them is looked at."""
    await lasting.run(SUCCEEDED_MANY, EXAMINED_MAX + 1)
    await world.clock.advance(60)
    job_id = await world.submit()
    since = (await world.job(job_id))["submitted_at"]
    async with database.transaction() as tx:
        page = await jobs.list_jobs(tx, JobFilter(submitted_from=since), page_size=10)
    assert ([job.job_id for job in page.rows], page.next_after) == ([job_id], None)


async def test_a_large_job_that_took_long_to_arrive_is_found_by_when_it_was_seen(
    world: World, lasting: Raw, database: Database
) -> None:
    older = await world.submit()
    large = await lasting.insert_job(10_001, shown=False)
    between = await world.submit()
    await world.clock.advance(50 * 60)
    times = await submit_at_times(world, 3)
    await lasting.run(
        "update holdfast.jobs set submitted_at = holdfast.now(), seq = 1,"
        " event_type = 'submitted', event_at = holdfast.now() where job_id = $1",
        large,
    )
    ids, at = list(times), list(times.values())
    assert await listed(database, submitted_from=at[1]) == [ids[2], ids[1], large]
    assert await listed(database, 1, submitted_from=at[1]) == [ids[2], ids[1], large]
    assert await listed(database, submitted_until=at[1]) == [ids[0], between, older]
    assert await listed(database, submitted_from=at[1], type="none") == []
