"""Databases for tests, as new as from the template, mostly without copying it again.

To copy a database takes a hundred times longer than to empty one. So the database of a test that
has ended is emptied for the next one, under another name, which whoever still knows the old one
does not find. Only one whose schema and settings are as the migrations left them is used again.

Whoever empties it stays connected: a new connection has to learn all tables first, which takes
several times longer than the work.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg
import psycopg

from holdfast.embedded import EmbeddedPostgres

TEMPLATE = "holdfast_template"
FIRST_OID_OF_OURS = 16384
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
_OTHERS = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
    "where datname = current_database() and pid != pg_backend_pid()"
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
        self.cleaners: dict[str, Cleaner] = {}


_SPARES: dict[str, Spare] = {}


async def connect(url: str, **how: Any) -> Any:
    """Connect past all code of ours; a pooler may be in between, which keeps no statements."""
    return await asyncpg.connect(url, statement_cache_size=0, **how)


async def take_database(postgres: EmbeddedPostgres) -> str:
    """Provide a database that is as the template; returns its name."""
    spare = _SPARES.setdefault(postgres.url("postgres"), Spare())
    name = f"test_{uuid4().hex}"
    left, spare.name = spare.name, None
    if left is not None:
        cleaner = spare.cleaners.pop(left)
        if spare.pristine and cleaner.clean(left, name, spare.pristine):
            spare.cleaners[name] = cleaner
            return name
        cleaner.close()
        await _drop(postgres, left, name)
    await _ask_admin(postgres, f"create database {name} template {TEMPLATE}")
    cleaner = spare.cleaners[name] = Cleaner(postgres.url(name))
    spare.pristine = spare.pristine or cleaner.describe()
    cleaner.execute(WATCH)
    return name


async def give_back_database(postgres: EmbeddedPostgres, name: str) -> None:
    """Leave a database to the next one that wants one; one is kept, more are dropped."""
    spare = _SPARES[postgres.url("postgres")]
    name, spare.name = spare.name or name, name
    if name != spare.name:
        spare.cleaners.pop(name).close()
        await _drop(postgres, name)


async def _drop(postgres: EmbeddedPostgres, *names: str) -> None:
    await _ask_admin(postgres, *(f"drop database if exists {name} with (force)" for name in names))


async def _ask_admin(postgres: EmbeddedPostgres, *statements: str) -> None:
    admin = await asyncpg.connect(postgres.url("postgres"))
    try:
        for statement in statements:
            await admin.execute(statement)
    finally:
        await admin.close()


class Cleaner:
    """Who empties one database, from its first test to its last one: outlives their event loops."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, application_name="tests")

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def execute(self, statement: str) -> None:
        """Do something, or several things in one transaction."""
        self._connection.execute(statement.encode())

    def _fetch(self, query: str) -> list[Any]:
        return self._connection.execute(query.encode(), prepare=True).fetchall()

    def describe(self) -> Pristine:
        """Read what a new database is like."""
        tables = [row[0] for row in self._fetch(_TABLES)]
        seeds = {table: rows for table, rows in self._read_rows(tables).items() if rows}
        [[clock]] = self._fetch(_CLOCK)
        return Pristine(self._read_fingerprint(), seeds, self._fetch(_SEQUENCES), clock)

    def clean(self, name: str, wanted: str, pristine: Pristine) -> bool:
        """Empty the database under another name; returns whether it is as new by that."""
        try:
            self._take_away(name, wanted)
            if self._fetch(_CLOCK) != [(pristine.clock,)]:
                self.execute(f"drop table if exists public.test_clock; {pristine.clock}")
            if self._read_fingerprint() != pristine.fingerprint:
                return False
            self._empty(pristine)
            return True
        except psycopg.OperationalError:
            return False  # the test has dropped the database, or stopped its Postgres

    def _take_away(self, name: str, wanted: str) -> None:
        """Take the database away from everybody who is still connected, for good."""
        # As `alter database` does it, which refuses whoever is connected to the database itself.
        self.execute(f"update pg_database set datname = '{wanted}' where datname = '{name}'")
        # Until there is nobody: one may have been about to come in under the old name.
        while self._fetch(_OTHERS):
            pass

    def _read_fingerprint(self) -> str:
        query = f"select md5(string_agg(part, '|' order by part)) from ({_FINGERPRINT}) as parts"
        [[fingerprint]] = self._fetch(query)
        return str(fingerprint)

    def _read_rows(self, tables: Iterable[str]) -> dict[str, Any]:
        rows = [f"(select json_agg(t)::text from {table} as t)" for table in tables]
        [values] = self._fetch(f"select {', '.join(rows)}")
        return dict(zip(tables, values, strict=True))

    def _empty(self, pristine: Pristine) -> None:
        # Guards against deletion and against changing what has happened are right, but not now.
        steps = ["set local session_replication_role = replica"]
        filled = [row for row in self._fetch(_FILLED) if row[0] not in pristine.seeds]
        # To delete some rows is ten times quicker than to make the files of a table anew. What is
        # left of them makes no other plan: a small table counts as one of ten pages.
        steps += [f"delete from {table}" for table, size in filled if size <= DELETED_BYTES_MAX]
        if large := [table for table, size in filled if size > DELETED_BYTES_MAX]:
            steps.append(f"truncate {', '.join(large)} cascade")
        for table, rows in self._read_rows(pristine.seeds).items():
            if rows != pristine.seeds[table]:
                steps += _sow(table, pristine.seeds[table])
        moved = set(self._fetch(_SEQUENCES))
        for name, start, last in set(pristine.sequences) - moved:
            steps.append(f"select setval('{name}', {last or start}, {last is not None})")
        self.execute("; ".join([*steps, "select pg_stat_reset()", WATCH]))


def _sow(table: str, rows: str) -> list[str]:
    columns = ", ".join(json.loads(rows)[0])
    text = rows.replace("'", "''")
    return [
        f"delete from {table}",
        f"insert into {table} ({columns}) overriding system value "
        f"select {columns} from json_populate_recordset(null::{table}, '{text}')",
    ]
