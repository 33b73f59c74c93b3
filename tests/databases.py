"""Databases for tests, as new as from the template, mostly without copying it again.

To copy a database takes a hundred times longer than to empty one. So the database of a test that
has ended is emptied for the next one, under another name, which whoever still knows the old one
does not find. Only one whose schema and settings are as the migrations left them is used again.
"""

import json
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg

from holdfast.embedded import EmbeddedPostgres

TEMPLATE = "holdfast_template"
FIRST_OID_OF_OURS = 16384
TURNS = 5
DELETED_BYTES_MAX = 5 << 13
# The template is as old as the session, which the reaper would take for an outage.
WATCH = "update holdfast.reaper set last_pass_at = holdfast.now()"

# Everything that a statement could have changed about a database, but for rows and sequences.
# That a table was analysed counts as well: plans are made from it.
_CATALOGUES = {
    "pg_attrdef": "oid", "pg_attribute": "attrelid", "pg_constraint": "oid", "pg_enum": "oid",
    "pg_event_trigger": "oid", "pg_extension": "oid", "pg_index": "indexrelid", "pg_policy": "oid",
    "pg_namespace": "oid", "pg_rewrite": "oid", "pg_statistic_ext": "oid", "pg_trigger": "oid",
    "pg_type": "oid",
}  # fmt: skip
_FINGERPRINT = " union all ".join(
    [
        "select concat('pg_class', oid, relname, relkind, relnamespace, relowner, relpersistence, "
        "relhastriggers, relrowsecurity, relforcerowsecurity, relreplident, reloptions, relacl) "
        f"as part from pg_class where oid >= {FIRST_OID_OF_OURS}",
        f"select concat('stats', starelid) from pg_statistic where starelid >= {FIRST_OID_OF_OURS}",
        "select concat('settings', setconfig) from pg_db_role_setting, pg_database "
        "where setdatabase = pg_database.oid and datname = current_database()",
        "select concat('database', datallowconn, datconnlimit, datacl, datdba) from pg_database "
        "where datname = current_database()",
        # The clock is put back, which makes a new row of the same function.
        f"select concat('pg_proc', pg_proc) from pg_proc where oid >= {FIRST_OID_OF_OURS}",
        # To change a row is to write it anew, in another transaction.
        *(
            f"select concat('{name}', count(*), ' ', sum(xmin::text::bigint)) from {name} "
            f"where {oid} >= {FIRST_OID_OF_OURS}"
            for name, oid in _CATALOGUES.items()
        ),
    ]
)
_TABLES = (
    "select oid::regclass::text from pg_class where relnamespace = 'holdfast'::regnamespace "
    "and relkind = 'r' order by 1"
)
_FILLED = (
    "select oid::regclass::text, pg_relation_size(oid) from pg_class "
    "where relnamespace = 'holdfast'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0"
)
_SEQUENCES = (
    "select format('%I.%I', schemaname, sequencename), start_value, last_value from pg_sequences "
    "order by 1"
)
# Tests move the time by another definition of it.
_CLOCK = "select pg_get_functiondef('holdfast.now'::regproc)"


class Pristine(NamedTuple):
    """What a database from the template is like."""

    fingerprint: str
    seeds: dict[str, str]
    sequences: list[Any]
    clock: str


class Spare:
    """The database that the last test of one Postgres has left, if any, and what it was like."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.pristine: Pristine | None = None


_SPARES: dict[str, Spare] = {}


async def take_database(postgres: EmbeddedPostgres) -> str:
    """Provide a database that is as the template; returns its name."""
    admin = await asyncpg.connect(postgres.url("postgres"))
    try:
        spare = _SPARES.setdefault(postgres.url("postgres"), Spare())
        name = f"test_{uuid4().hex}"
        left, spare.name = spare.name, None
        if left is not None and await _rename(admin, left, name):
            if spare.pristine and await _clean(postgres.url(name), spare.pristine):
                return name
            await admin.execute(f"drop database {name} with (force)")
        await admin.execute(f"create database {name} template {TEMPLATE}")
        spare.pristine = await _watch(postgres.url(name), spare.pristine)
        return name
    finally:
        await admin.close()


async def give_back_database(postgres: EmbeddedPostgres, name: str) -> None:
    """Leave a database to the next one that wants one; one is kept, more are dropped."""
    spare = _SPARES[postgres.url("postgres")]
    name, spare.name = spare.name or name, name
    if name != spare.name:
        admin = await asyncpg.connect(postgres.url("postgres"))
        try:
            await admin.execute(f"drop database {name} with (force)")
        finally:
            await admin.close()


async def _rename(admin: Any, name: str, wanted: str) -> bool:
    """Take a database away from everybody who is still connected, for good."""
    for _ in range(TURNS):
        await admin.execute(
            f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{name}'"
        )
        try:
            await admin.execute(f"alter database {name} rename to {wanted}")
            return True
        except asyncpg.ObjectInUseError:
            continue  # somebody came in between
        except asyncpg.InvalidCatalogNameError:
            return False  # the test itself has dropped it
    await admin.execute(f"drop database if exists {name} with (force)")
    return False


async def _watch(url: str, known: Pristine | None) -> Pristine:
    """Begin with a new database; returns what it is like."""
    connection = await asyncpg.connect(url)
    try:
        pristine = known or await _describe(connection)
        await connection.execute(WATCH)
        return pristine
    finally:
        await connection.close()


async def _describe(connection: Any) -> Pristine:
    tables = [row[0] for row in await connection.fetch(_TABLES)]
    seeds = {}
    for table in tables:
        rows = await connection.fetchval(f"select json_agg(t)::text from {table} as t")
        if rows:
            seeds[table] = rows
    return Pristine(
        await _read_fingerprint(connection),
        seeds,
        await connection.fetch(_SEQUENCES),
        await connection.fetchval(_CLOCK),
    )


async def _read_fingerprint(connection: Any) -> str:
    query = f"select md5(string_agg(part, '|' order by part)) from ({_FINGERPRINT}) as parts"
    return str(await connection.fetchval(query))


async def _clean(url: str, pristine: Pristine) -> bool:
    """Empty a database; returns whether it is as new by that."""
    connection = await asyncpg.connect(url)
    try:
        if await connection.fetchval(_CLOCK) != pristine.clock:
            await connection.execute(f"drop table if exists public.test_clock; {pristine.clock}")
        if await _read_fingerprint(connection) != pristine.fingerprint:
            return False
        await _empty(connection, pristine)
        return True
    finally:
        await connection.close()


async def _empty(connection: Any, pristine: Pristine) -> None:
    filled = [row for row in await connection.fetch(_FILLED) if row[0] not in pristine.seeds]
    # Guards against deletion and against changing what has happened are right, but not now.
    steps = ["set session_replication_role = replica"]
    # To delete some rows is ten times quicker than to make the files of a table anew. What is left
    # of them makes no other plan: a small table counts as one of ten pages.
    steps += [f"delete from {table}" for table, size in filled if size <= DELETED_BYTES_MAX]
    if large := [table for table, size in filled if size > DELETED_BYTES_MAX]:
        steps.append(f"truncate {', '.join(large)} cascade")
    for table, rows in pristine.seeds.items():
        text = await connection.fetchval("select quote_literal($1)", rows)
        columns = ", ".join(json.loads(rows)[0])
        steps += [
            f"delete from {table}",
            f"insert into {table} ({columns}) overriding system value "
            f"select {columns} from json_populate_recordset(null::{table}, {text})",
        ]
    moved = set(await connection.fetch(_SEQUENCES))
    for name, start, last in set(pristine.sequences) - moved:
        steps.append(f"select setval('{name}', {last or start}, {last is not None})")
    await connection.execute("; ".join([*steps, "select pg_stat_reset()", WATCH]))
