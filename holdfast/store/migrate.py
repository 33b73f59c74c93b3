"""Bring a database's schema up to this program's, once, however many try at the same time.

The schema is the files in `schema/`. Tables come by migrations: numbered, applied once, in order,
and never edited after a release. Functions, views and triggers are definitions: a file of them can
be run again, and is whenever its text is another than the one that was applied last. They have no
order of their own: a change of them comes with a migration, whose number an older program refuses,
and which drops what is no longer defined. States stand in all of them by name.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import asyncpg

from holdfast.errors import SchemaMismatch
from holdfast.store.database import connecting, session_settings
from holdfast.store.state_names import number_states

# Any number will do, as long as nobody else takes advisory locks under it.
_LOCK = 0x686F6C64
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
# In the order in which they are applied: triggers call functions.
_DEFINITIONS = ("functions", "views", "triggers")
_SERVER_MIN = 15

# The first of the migrations that were folded into one set before the first release.
_BEFORE_RELEASE = (1, "ledger")
TOO_OLD = (
    "the schema was made by a holdfast from before its first release, and cannot be upgraded; "
    "use another database, or `drop schema holdfast cascade` in this one, which deletes all jobs, "
    "and run `holdfast db migrate`"
)


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


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration as the database remembers it."""

    version: int
    name: str
    checksum: str


class Recorded(NamedTuple):
    """What has been applied to a database; of definitions the checksum, by name."""

    migrations: tuple[Applied, ...]
    definitions: dict[str, str]

    @property
    def is_too_old(self) -> bool:
        """Tell whether the schema was made before its migrations were folded."""
        return any((step.version, step.name) == _BEFORE_RELEASE for step in self.migrations)


_NOTHING = Recorded((), {})


@cache
def load_schema() -> Schema:
    """Read this program's schema."""
    folder = resources.files("holdfast.store") / "schema"
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


async def migrate(url: str, schema: Schema | None = None) -> Schema:
    """Apply what is missing: each migration, then all definitions, in a transaction of its own.

    Returns what was applied.
    """
    schema = load_schema() if schema is None else schema
    connection = await _connect(url)
    try:
        await connection.execute("select pg_advisory_lock($1)", _LOCK)
        missing = compare(await _read_recorded(connection), schema)
        await connection.execute(
            "create schema if not exists holdfast; "
            "create table if not exists holdfast.schema_versions ("
            "version int primary key, name text not null, checksum text not null, "
            "applied_at timestamptz not null default clock_timestamp()); "
            "create table if not exists holdfast.schema_definitions ("
            "name text primary key, checksum text not null, "
            "applied_at timestamptz not null default clock_timestamp())"
        )
        for migration in missing.migrations:
            async with connection.transaction():
                await _apply_migration(connection, migration)
        if missing.definitions:
            async with connection.transaction():
                for definition in missing.definitions:
                    await _apply_definition(connection, definition)
                await connection.execute(
                    "delete from holdfast.schema_definitions where name <> all ($1)",
                    [definition.name for definition in schema.definitions],
                )
        return missing
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
    """Raise SchemaMismatch unless the database's schema is exactly this program's."""
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
    """List what is missing or has changed; newer or different migrations are an error."""
    if recorded.is_too_old:
        raise SchemaMismatch(TOO_OLD)
    known = {migration.version: migration for migration in schema.migrations}
    for step in recorded.migrations:
        ours = known.get(step.version)
        if ours is None:
            raise SchemaMismatch(
                f"the database has migration {step.version} ({step.name}), which this program does "
                "not know: it is older than the schema; upgrade holdfast"
            )
        if ours.checksum != step.checksum:
            raise SchemaMismatch(
                f"migration {step.version} ({step.name}) was applied with another text; this "
                "database was made by a different build of holdfast"
            )
    done = {step.version for step in recorded.migrations}
    return Schema(
        tuple(step for step in schema.migrations if step.version not in done),
        tuple(
            definition
            for definition in schema.definitions
            if recorded.definitions.get(definition.name) != definition.checksum
        ),
    )


async def _apply_migration(connection: Any, migration: Migration) -> None:
    await connection.execute(migration.text)
    await connection.execute(
        "insert into holdfast.schema_versions (version, name, checksum) values ($1, $2, $3)",
        migration.version,
        migration.name,
        migration.checksum,
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
        return _NOTHING
    rows = await connection.fetch(
        "select version, name, checksum from holdfast.schema_versions order by version"
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
        connection = await asyncpg.connect(url, server_settings=settings)
    major = connection.get_server_version().major
    if major < _SERVER_MIN:
        await connection.close()
        raise SchemaMismatch(f"Postgres {major} is too old; Holdfast needs {_SERVER_MIN} or newer")
    return connection
