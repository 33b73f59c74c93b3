"""Bring a database's schema up to this program's, once, however many try at the same time.

The schema is the files in `schema/`. Tables come by migrations: numbered, applied once, in order,
and never edited after a release. Functions, views and triggers are definitions: a file of them can
be run again, and is whenever its text is another than the one that was applied last. They have no
order of their own: a change of them comes with a migration, by whose number an older program knows
that they are newer than its own, and which drops what is no longer defined. States stand in all of
them by name.

A migration says in its first line which programs can go on beside it, by the last migration that
they know: `-- compatible with 23`. The database remembers it, so that a program which has never
heard of the migration can tell whether it may work there. Migrations run beside them, too: whoever
has to wait for a lock lets go soon, and tries again.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Container, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from holdfast.errors import SchemaMismatch
from holdfast.store.database import connecting, session_settings
from holdfast.store.hosts import Hosts
from holdfast.store.online import HOLD_SECONDS_MAX, briefly, in_turn, rest
from holdfast.store.state_names import number_states

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
# In the order in which they are applied: triggers call functions.
_DEFINITIONS = ("functions", "views", "triggers")
_SERVER_MIN = 15

_COMPATIBLE = re.compile(r"-- compatible with (\d+)\n")
_OUTSIDE = re.compile(r"^-- outside a transaction\n", re.MULTILINE)
# What is not a comment.
_WORDS = re.compile(r"^\s*(?!--)\S", re.MULTILINE)
_OUTSIDE_SECONDS_MAX = 12 * 3600.0

# The first of the migrations that were folded into one set before the first release.
_BEFORE_RELEASE = (1, "ledger")
TOO_OLD = (
    "the schema was made by a holdfast from before its first release, and cannot be upgraded; "
    "use another database, or `drop schema holdfast cascade` in this one, which deletes all jobs, "
    "and run `holdfast db migrate`"
)


_RECORDS = (
    # `create schema if not exists` asks for the right to create one where it is there already.
    "do $$ begin if to_regnamespace('holdfast') is null then create schema holdfast; end if; end $$"
    "; "
    "create table if not exists holdfast.schema_versions ("
    "version int primary key, name text not null, checksum text not null, "
    "applied_at timestamptz not null default clock_timestamp()); "
    "alter table holdfast.schema_versions add column if not exists compatible_with int; "
    "create table if not exists holdfast.schema_definitions ("
    "name text primary key, checksum text not null, "
    "applied_at timestamptz not null default clock_timestamp())"
)
_HAS_RECORDS = (
    "select to_regclass('holdfast.schema_definitions') is not null and exists ("
    "select from pg_attribute where attrelid = to_regclass('holdfast.schema_versions') "
    "and attname = 'compatible_with')"
)


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration as the database remembers it."""

    version: int
    name: str
    checksum: str
    compatible_with: int | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the tables."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Tell an edited migration from the one that was applied."""
        return _digest(self.text)

    @property
    def compatible_with(self) -> int | None:
        """Say which programs go on beside it: those that know this version; None is none."""
        match = _COMPATIBLE.match(self.text)
        return int(match[1]) if match else None

    @property
    def statements_outside(self) -> tuple[str, ...]:
        """List what has to run outside a transaction, such as an index built concurrently."""
        if not _OUTSIDE.search(self.text):
            return ()
        return tuple(split_statements(self.text))


@dataclass(frozen=True, slots=True)
class Definition:
    """A file of functions, views or triggers, such as `functions/submit`."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Tell whether it has changed since it was applied."""
        return _digest(self.text)


class Schema(NamedTuple):
    """Migrations and definitions, in order: all there are, or those that a database lacks."""

    migrations: tuple[Migration, ...]
    definitions: tuple[Definition, ...] = ()


class Recorded(NamedTuple):
    """What has been applied to a database; of definitions the checksum, by name."""

    migrations: tuple[Applied, ...]
    definitions: dict[str, str]

    @property
    def is_too_old(self) -> bool:
        """Tell whether the schema was made before its migrations were folded."""
        return any((step.version, step.name) == _BEFORE_RELEASE for step in self.migrations)


_NOTHING_RECORDED = Recorded((), {})
NOTHING = Schema(())


@cache
def load_schema(folder: Traversable | None = None) -> Schema:
    """Read this program's schema, or that of another version from its folder."""
    folder = folder or resources.files("holdfast.store") / "schema"
    migrations = []
    for file in (folder / "tables").iterdir():
        match = _FILE.fullmatch(file.name)
        assert match, f"{file.name} has no number"
        migrations.append(Migration(int(match[1]), match[2], _read(file)))
    definitions = [
        Definition(f"{kind}/{file.name.removesuffix('.sql')}", _read(file))
        for kind in _DEFINITIONS
        for file in sorted((folder / kind).iterdir(), key=lambda file: file.name)
    ]
    migrations.sort(key=lambda migration: migration.version)
    return Schema(tuple(migrations), tuple(definitions))


def _read(file: Traversable) -> str:
    return number_states(file.read_text(encoding="utf-8"))


async def migrate(
    url: str, schema: Schema | None = None, *, hold_seconds_max: float = HOLD_SECONDS_MAX
) -> Schema:
    """Apply what is missing: each migration, then all definitions, in a transaction of its own.

    Nobody is held up for longer than a moment, unless the database is new: then nobody is there.
    Returns what was applied.
    """
    schema = load_schema() if schema is None else schema
    connection = await _connect(url)
    applied = Schema(())

    async def run(step: Callable[[], Awaitable[Schema]]) -> Schema:
        if is_new:
            return await in_turn(connection, step)
        return await briefly(connection, step, hold_seconds_max=hold_seconds_max)

    try:
        recorded = await _read_recorded(connection)
        is_new = not recorded.migrations
        missing = compare(recorded, schema)
        await run(partial(_keep_records, connection))
        while missing != NOTHING:
            step = partial(_apply_first, connection, url, schema)
            if missing.migrations and missing.migrations[0].statements_outside:
                done = await in_turn(connection, step, beside_older=True)
            else:
                done = await run(step)
            applied = Schema(applied.migrations + done.migrations, done.definitions)
            missing = compare(await _read_recorded(connection), schema)
        return applied
    finally:
        await connection.close()


async def _keep_records(connection: Any) -> Schema:
    """Make the tables of what has been applied, or what is younger in them."""
    if not await connection.fetchval(_HAS_RECORDS):
        await connection.execute(_RECORDS)
    return NOTHING


async def _apply_first(connection: Any, url: str, schema: Schema) -> Schema:
    """Apply the first migration that is missing, or else all definitions that are.

    What is missing is read again: another migrator may have come in between.
    """
    missing = compare(await _read_recorded(connection), schema)
    for migration in missing.migrations[:1]:
        await _apply_migration(connection, url, migration)
        return Schema((migration,))
    await _apply_definitions(connection, missing.definitions, schema)
    return missing


async def _run_outside(url: str, migration: Migration) -> None:
    """Run the statements of a migration which has to be outside a transaction, one by one.

    The caller's transaction keeps other migrators away. A migration that failed half way runs
    again from its first statement.
    """
    connection = await _connect(url)
    try:
        for statement in migration.statements_outside:
            await connection.execute(statement, timeout=_OUTSIDE_SECONDS_MAX)
    finally:
        await connection.close()


async def read_recorded(url: str) -> Recorded:
    """Read what has been applied to a database."""
    connection = await _connect(url)
    try:
        return await _read_recorded(connection)
    finally:
        await connection.close()


async def check_schema(url: str, schema: Schema | None = None) -> None:
    """Raise SchemaMismatch unless this program can work with the database's schema."""
    missing = compare(await read_recorded(url), load_schema() if schema is None else schema)
    for migration in missing.migrations:
        raise SchemaMismatch(
            f"the database lacks migration {migration.version} ({migration.name}); "
            "run `holdfast db migrate`"
        )
    for definition in missing.definitions:
        raise SchemaMismatch(
            f"the database has another version of {definition.name}; run `holdfast db migrate`"
        )


def compare(recorded: Recorded, schema: Schema) -> Schema:
    """List what is missing or has changed.

    Nothing is missing where newer programs have been, if theirs says that ours may go on. What
    ours cannot work with is an error.
    """
    if recorded.is_too_old:
        raise SchemaMismatch(TOO_OLD)
    known = {migration.version: migration for migration in schema.migrations}
    for step in recorded.migrations:
        ours = known.get(step.version)
        if ours is not None and ours.checksum != step.checksum:
            raise SchemaMismatch(
                f"migration {step.version} ({step.name}) was applied with another text; this "
                "database was made by a different build of holdfast"
            )
    done = {step.version for step in recorded.migrations}
    missing = tuple(step for step in schema.migrations if step.version not in done)
    newer = [step for step in recorded.migrations if step.version not in known]
    for step in newer:
        if missing or not can_work_beside(step, known):
            raise SchemaMismatch(
                f"the database has migration {step.version} ({step.name}), which this program does "
                "not know and cannot work with: it is older than the schema; upgrade holdfast"
            )
    if newer:
        return NOTHING
    return Schema(
        missing,
        tuple(
            definition
            for definition in schema.definitions
            if recorded.definitions.get(definition.name) != definition.checksum
        ),
    )


def split_statements(text: str) -> Iterator[str]:
    """Split a text at each semicolon that ends a line and is in no body between dollar signs."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and statement.count("$$") % 2 == 0:
            yield statement
            statement = ""
    if _WORDS.search(statement):
        yield statement


def can_work_beside(step: Applied, known: Container[int]) -> bool:
    """Tell whether a program that knows some migrations can go on beside one it does not know."""
    return step.compatible_with in known


async def _apply_migration(connection: Any, url: str, migration: Migration) -> None:
    if migration.statements_outside:
        await rest(connection)
        await _run_outside(url, migration)
    else:
        await connection.execute(migration.text)
    await connection.execute(
        "insert into holdfast.schema_versions (version, name, checksum, compatible_with) "
        "values ($1, $2, $3, $4)",
        migration.version,
        migration.name,
        migration.checksum,
        migration.compatible_with,
    )


async def _apply_definitions(
    connection: Any, definitions: tuple[Definition, ...], schema: Schema
) -> None:
    for definition in definitions:
        await _apply_definition(connection, definition)
    await connection.execute(
        "delete from holdfast.schema_definitions where name <> all ($1)",
        [definition.name for definition in schema.definitions],
    )


async def _apply_definition(connection: Any, definition: Definition) -> None:
    await connection.execute(definition.text)
    await connection.execute(
        "insert into holdfast.schema_definitions (name, checksum) values ($1, $2) "
        "on conflict (name) do update "
        "set checksum = excluded.checksum, applied_at = excluded.applied_at",
        definition.name,
        definition.checksum,
    )


async def _read_recorded(connection: Any) -> Recorded:
    if await connection.fetchval("select to_regclass('holdfast.schema_versions')") is None:
        return _NOTHING_RECORDED
    rows = await connection.fetch(
        # The column is younger than the table.
        "select version, name, checksum, (to_jsonb(v) ->> 'compatible_with')::int "
        "from holdfast.schema_versions v order by version"
    )
    migrations = tuple(Applied(*row) for row in rows)
    # A schema from before the first release has no such table.
    if await connection.fetchval("select to_regclass('holdfast.schema_definitions')") is None:
        return Recorded(migrations, {})
    definitions = await connection.fetch("select name, checksum from holdfast.schema_definitions")
    return Recorded(migrations, dict(definitions))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def _connect(url: str) -> Any:
    async with connecting(url):
        settings = session_settings(url, "holdfast db")
        # Nothing is prepared under a name, which a pooler would leave to others.
        connection = await Hosts(url).connect(server_settings=settings, statement_cache_size=0)
    major = connection.get_server_version().major
    if major < _SERVER_MIN:
        await connection.close()
        raise SchemaMismatch(f"Postgres {major} is too old; Holdfast needs {_SERVER_MIN} or newer")
    return connection
