"""The terms under which jobs were submitted, as their tables have them."""

from datetime import timedelta

from holdfast.model.submitting.spec import Submission
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.reads.work.jobs import get_job_with_spec
from holdfast.store.reads.work.terms import TermsRow, find_terms
from tests.timetable import HOUR, Timetable, at
from tests.world import World

SPEC = {"entrypoint": {"function": "app:work"}, "queue": "q"}


async def terms_of(database: Database, job_id: int) -> TermsRow:
    async with database.transaction() as tx:
        return await find_terms(tx, await get_job_with_spec(tx, job_id))


async def test_a_job_without_terms_has_none(world: World, database: Database) -> None:
    assert await terms_of(database, await world.submit()) == TermsRow()
    # What looks like one is none.
    assert await terms_of(database, await world.submit(labels={"unique": "no"})) == TermsRow()


async def test_a_job_holds_its_key_until_it_gives_it_back(world: World, database: Database) -> None:
    submission = Submission(parse_spec(SPEC | {"unique": {}, "expires": 60}), None)
    job_id = (await submit_one(world.ledger, submission)).job_id
    found = await terms_of(database, job_id)
    assert found.expires_at is not None
    assert found.unique_key is not None
    assert len(found.unique_key) == 16
    await cancel_job(world.ledger, job_id, "hard", actor="ann", reason="no need")
    assert (await terms_of(database, job_id)).unique_key is None


async def test_a_firing_names_its_schedule_and_its_instant(
    world: World, database: Database
) -> None:
    timetable = Timetable(world)
    await timetable.go_to(at("2030-01-01T00:00") + timedelta(seconds=0.5))
    await timetable.set("nightly", cron="0 1 * * *")
    await timetable.go_to(at("2030-01-01T00:00") + HOUR)
    await timetable.fire()
    [firing] = await timetable.firings("nightly")
    assert firing.job_id is not None
    found = await terms_of(database, firing.job_id)
    assert (found.schedule, found.instant, found.kind) == ("nightly", firing.instant, "scheduled")
