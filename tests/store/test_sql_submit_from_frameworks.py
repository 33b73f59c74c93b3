"""The page on transactional enqueueing holds what it says: its own blocks are what runs here."""

import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from tests.audits import assert_audit_is_silent
from tests.store.raw import Raw
from tests.store.two_ways import SPEC, sql_submit
from tests.world import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transactional-enqueue.md"

# What a user's program does after the page's blocks: it orders, and changes its mind.
ORDERS = {
    "psycopg": """
with psycopg.connect(DATABASE_URL) as connection:
    with connection.transaction():
        order_with_psycopg(connection, "kept")
    try:
        with connection.transaction():
            order_with_psycopg(connection, "rolled back")
            raise LookupError
    except LookupError:
        pass
""",
    "sqlalchemy": """
with Session(engine) as session:
    order_with_sqlalchemy(session, "kept")
    session.commit()
    order_with_sqlalchemy(session, "rolled back")
    session.rollback()
engine.dispose()
""",
    "django": """
order_with_django("kept")
try:
    with transaction.atomic():
        order_with_django("rolled back")
        raise LookupError
except LookupError:
    pass
connection.close()
""",
}
ON_THE_PAGE = ["a kettle", "a teapot", "a cup"]


def blocks(language: str) -> list[str]:
    """List the page's blocks of one language."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(program: str, url: str) -> None:
    """Run a program as a user would."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


async def orders_and_jobs(lasting: Raw) -> list[tuple[str, str]]:
    """List what was ordered with the key of its job; one without the other shows as None."""
    rows = await lasting.rows(
        "select orders.item, jobs.idempotency_key from orders full join holdfast.jobs"
        " on jobs.spec #>> '{entrypoint,args,0}' = orders.id::text order by job_id"
    )
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("framework", ORDERS)
async def test_a_framework_enqueues_with_its_commit_and_not_with_its_rollback(
    framework: str, database_url: str, lasting: Raw, world: World
) -> None:
    run("\n".join([*blocks("python"), ORDERS[framework]]), database_url)
    found = await orders_and_jobs(lasting)
    assert [item for item, _ in found] == [*ON_THE_PAGE, "kept"]
    assert all(key.startswith("confirm order ") for _, key in found)
    claims = await world.claim(9, queue="mail")
    assert [claim.job.spec.entrypoint.function for claim in claims] == ["shop.mail:confirm"] * 4
    await assert_audit_is_silent(world.ledger.database)


async def test_the_statements_of_the_page_do_what_it_says(lasting: Raw) -> None:
    order, grant, grant_completing, *_ = blocks("sql")
    await lasting.run(
        "create table orders (id bigint generated always as identity primary key, item text)"
    )
    await lasting.run(order)
    assert [item for item, _ in await orders_and_jobs(lasting)] == ["a kettle"]
    async with lasting.rolled_back():
        await lasting.run("create role shop")
        await lasting.run(grant)
        await lasting.run(grant_completing)
        await lasting.run("set session authorization shop")
        assert await sql_submit(lasting.connection, SPEC) > 0
        with pytest.raises(asyncpg.PostgresError, match="does not hold the lease"):
            await lasting.run(f"select holdfast.complete('1.0', 0, '{uuid4()}')")
