"""The example of docs/expand-and-contract.md, run as it stands there, on a ledger with history."""

import re
from pathlib import Path

import asyncpg
import pytest

from holdfast.errors import SchemaMismatch
from holdfast.model.work.states import TaskState
from holdfast.store.migrate import Migration, Schema, check_schema, load_schema, migrate
from tests.audits import assert_audit_is_silent
from tests.conftest import run_sql
from tests.databases import connect
from tests.store.squawk import read_with_squawk
from tests.world import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "expand-and-contract.md"
OURS = load_schema()
FIRST = 1001  # far from ours
BATCH, SMALL_BATCH = "limit 500", "limit 2"
REGIONS = "select job_id, region from holdfast.jobs order by job_id"
IS_VALID = "select indisvalid from pg_index where indexrelid = 'holdfast.jobs_by_region'::regclass"


def read_example() -> list[Migration]:
    """Take the migrations from the page."""
    texts = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return [Migration(FIRST + n, f"example_{n}", text) for n, text in enumerate(texts)]


EXPAND, BACKFILL, CONTRACT = read_example()
assert BATCH in BACKFILL.text
# Several batches of a few rows.
BACKFILL = Migration(BACKFILL.version, BACKFILL.name, BACKFILL.text.replace(BATCH, SMALL_BATCH))


def with_ours(*migrations: Migration) -> Schema:
    return Schema(OURS.migrations + migrations, OURS.definitions)


async def make_history(world: World) -> dict[int, str]:
    """Have jobs in several states; returns what each is to have as its region."""
    await world.watch()
    regions = {await world.submit(labels={"region": name}): name for name in ("eu", "us", "eu")}
    regions |= {await world.submit(): "", await world.submit([1, 2, 3]): ""}
    done, failed, running = await world.claim(3)
    for claim in (done, failed, running):
        await world.start(claim)
    await world.succeed(done)
    await world.fail(failed, "PermanentError")
    await world.cancel_job(max(regions))
    states = {await world.job_state(job_id) for job_id in regions}
    assert len(states & {TaskState.SUCCEEDED, TaskState.RUNNING, TaskState.KILLED}) == 3
    return regions


async def test_the_example_runs_beside_a_ledger_with_history(
    world: World, database_url: str
) -> None:
    regions = await make_history(world)
    schema = with_ours(EXPAND, BACKFILL)
    assert (await migrate(database_url, schema)).migrations == (EXPAND, BACKFILL)
    await check_schema(database_url, OURS)  # programs that do not know it go on
    # Somebody has failed half way, and an older program has inserted a row since.
    regions[await world.submit(labels={"region": "ap"})] = "ap"
    await run_sql(
        database_url,
        f"delete from holdfast.schema_versions where version = {BACKFILL.version}",
        "update holdfast.jobs set region = null where job_id = 1",
    )
    assert (await migrate(database_url, schema)).migrations == (BACKFILL,)
    connection = await connect(database_url)
    try:
        assert dict(await connection.fetch(REGIONS)) == regions
        assert await connection.fetchval(IS_VALID) is True
    finally:
        await connection.close()
    await assert_audit_is_silent(world.ledger.database)


async def test_the_contracting_step_leaves_behind_who_does_not_know_the_expanding_one(
    database_url: str,
) -> None:
    await run_sql(database_url, "alter table holdfast.jobs add column old_region text")
    await migrate(database_url, with_ours(EXPAND, BACKFILL, CONTRACT))
    assert CONTRACT.compatible_with is not None
    await check_schema(database_url, OURS)
    older = Schema(OURS.migrations[: CONTRACT.compatible_with - 1], OURS.definitions)
    with pytest.raises(SchemaMismatch, match=r"example_2.*upgrade holdfast"):
        await check_schema(database_url, older)


@pytest.mark.parametrize("table", ["tasks", "attempts", "events"])
async def test_a_guarded_table_refuses_a_backfill(
    table: str, world: World, database_url: str
) -> None:
    await make_history(world)
    await run_sql(database_url, f"alter table holdfast.{table} add column region text")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="refused"):
        await run_sql(database_url, f"update holdfast.{table} set region = ''")


@pytest.mark.parametrize("table", ["jobs", "leases"])
async def test_other_tables_of_the_page_take_one(
    table: str, world: World, database_url: str
) -> None:
    await make_history(world)
    connection = await connect(database_url)
    try:
        await connection.execute(f"alter table holdfast.{table} add column region text")
        assert await connection.fetch(f"update holdfast.{table} set region = '' returning region")
    finally:
        await connection.close()
    await assert_audit_is_silent(world.ledger.database)


def test_squawk_has_nothing_against_the_example() -> None:
    assert read_with_squawk(read_example()) == ""
