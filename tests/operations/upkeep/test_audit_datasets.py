"""The audit of datasets: silent on a healthy ledger, and it names what is planted."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.datasets.triggers import put_trigger, start_triggered
from holdfast.operations.datasets.versions import sweep_dropped
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.datasets import Library, an_entry
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.world import World

TEMPLATE = Submission(parse_spec({"entrypoint": {"function": "app:work"}, "queue": "later"}))


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Leave one ledger in which every kind of version stands.

    Job 1 has written `a` and `b` to version 1, which was cut over to and has started job 2; then
    version 2, based on it, with `c` of job 3, and then version 1 again. Version 3 is open, with `d`
    of job 4 in it; version 4 was replaced in by job 5, and dropped and swept; version 5 is open,
    job 6 has replaced in it, and job 7 still runs there.
    """
    library = Library(World(ledger, clock))
    await library.create(versions=1)
    await put_trigger(ledger, "events", "look", submission=TEMPLATE, actor="ann")
    await library.write(an_entry("a", size_bytes=1), an_entry("b"))
    await library.cut_over(1)

    async def submit(submission: Submission) -> Submitted:
        return await submit_one(ledger, submission)

    await start_triggered(ledger, submit)
    await library.open(based_on=1)
    await library.write(an_entry("c", size_bytes=2))
    await library.cut_over(2)
    await library.cut_over(1, reason="2 is wrong")
    await library.open()
    await library.write(an_entry("d"))
    await library.open()
    await library.write(an_entry("e"), mode="replace", version=4)
    await library.drop(4)
    await sweep_dropped(ledger)
    await library.open()
    await library.write(an_entry("f"), mode="replace", version=5)
    await library.submit("append", 5)
    await World(ledger, clock).claim()


ENTRY = (
    "insert into dataset_entries (dataset, version, key, partition_key, uri, job_id, task_index, "
    "attempt, committed_at, copied_from) select 'events', {version}, '{key}', '{key}', 'x', "
    "{job_id}, 0, 0, now(), {copied_from}"
)
D = ("entries_differ_from_their_commit", "4.0.0")


def entry(version: int, key: str, job_id: int, copied_from: str = "null") -> str:
    """Plant an entry."""
    return ENTRY.format(version=version, key=key, job_id=job_id, copied_from=copied_from)


DAMAGES = [
    Damage("entry_without_commit", "events/3/x", entry(3, "x", 7),
           (("entry_in_a_version_its_job_does_not_write", "events/3/x"),)),
    Damage("entry_without_commit", "events/3/d",
           "update dataset_entries set attempt = 1 where key = 'd'", (D,)),
    Damage("entry_without_version", "events/9/x", entry(9, "x", 4),
           (("entry_in_a_version_its_job_does_not_write", "events/9/x"), D)),
    Damage("entry_in_a_version_its_job_does_not_write", "events/5/d",
           "update dataset_entries set version = 5 where key = 'd'"),
    Damage("entry_copied_from_elsewhere", "events/2/a",
           "update dataset_entries set copied_from = 3 where key = 'a' and version = 2"),
    Damage("commit_without_success", "4.0.0",
           "update tasks set state = 3, finished_at = null where job_id = 4",
           (("task_differs_from_its_last_event", "4.0"), ("counts_differ", "4"),
            ("open_task_without_lease", "4.0.0"), ("live_task_left_behind", "4.0"))),
    Damage("commit_without_success", "4.0.1", "update commits set attempt = 1 where job_id = 4",
           (("entry_without_commit", "events/3/d"),
            ("entries_differ_from_their_commit", "4.0.1"))),
    Damage("commit_of_a_job_without_outputs", "4.0.0", "delete from job_outputs where job_id = 4",
           (("entry_in_a_version_its_job_does_not_write", "events/3/d"),)),
    Damage("entries_differ_from_their_commit", "4.0.0",
           "delete from dataset_entries where key = 'd'"),
    Damage("entries_differ_from_their_commit", "6.0.0", entry(5, "x", 6)),
    Damage("sealed_version_has_changed", "events/1",
           "delete from dataset_entries where key = 'a' and version = 1",
           (("entries_differ_from_their_commit", "1.0.0"),)),
    Damage("sealed_version_has_changed", "events/1",
           "update dataset_entries set size_bytes = 8 where key = 'a' and version = 1"),
    Damage("swept_version_has_entries", "events/4", entry(4, "e", 5)),
    Damage("version_differs_from_its_cut_overs", "events/2",
           "update dataset_versions set cut_over_at = now() where version = 2"),
    Damage("version_differs_from_its_cut_overs", "events/2",
           "delete from cut_overs where number > 1",
           (("trigger_run_without_cut_over", "events/2"),)),
    Damage("current_version_not_sealed", "events", "update datasets set current_version = 3",
           (("current_version_differs_from_its_cut_overs", "events"),)),
    Damage("current_version_not_sealed", "events", "update datasets set current_version = 9",
           (("current_version_differs_from_its_cut_overs", "events"),)),
    Damage("current_version_differs_from_its_cut_overs", "events",
           "update datasets set current_version = 2"),
    Damage("current_version_differs_from_its_cut_overs", "events",
           "update datasets set current_version = null"),
    Damage("cut_overs_do_not_follow_each_other", "events",
           "update cut_overs set previous = 3 where number = 2"),
    Damage("cut_overs_do_not_follow_each_other", "events",
           "update cut_overs set number = 7 where number = 3"),
    Damage("trigger_run_missing", "events/1", "delete from trigger_runs where version = 1"),
    Damage("trigger_run_differs_from_its_job", "events/1",
           "update trigger_runs set job_id = 4 where version = 1"),
    Damage("trigger_run_without_cut_over", "events/3",
           "insert into trigger_runs (dataset, trigger, version, requested_at, due_at) "
           "values ('events', 'look', 3, now(), now())"),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The scene, played once for all damages."""
    with a_scene(postgres, play_scene) as url:
        yield url


async def test_the_audit_has_nothing_to_say_of_the_scene(scene_url: str) -> None:
    async with Database(scene_url) as database:
        assert await reported(database) == set()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.invariant)
async def test_the_audit_names_what_is_planted(scene_url: str, damage: Damage) -> None:
    found = await find_planted(scene_url, damage)
    assert found == {(damage.invariant, damage.subject), *damage.also}


async def test_entries_outlive_the_jobs_that_wrote_them(world: World) -> None:
    library = Library(world)
    await library.create()
    await library.write(an_entry("a"), mode="replace")
    await library.write(an_entry("b"))
    await library.cut_over(1)
    first = await world.submit()
    await world.clock.fetch("select setval('holdfast.job_ids', 10000)")
    await world.cancel_job(first)
    await world.clock.advance(100 * 86_400)
    retention = Retention(jobs=timedelta(days=30))
    await world.submit()
    for _ in range(3):
        await prune(world.ledger, retention)
    assert await world.count("commits") + await world.count("job_outputs") == 0
    assert (await library.read()).keys() == {"a", "b"}
    await assert_audit_is_silent(world.ledger.database)
