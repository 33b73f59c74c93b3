"""Bring a database's schema up to this program's, once, however many try at the same time."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import asyncpg

from holdfast.errors import Invalid, SchemaMismatch, Unavailable

# Any number will do, as long as nobody else takes advisory locks under it.
_LOCK = 0x686F6C64
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_SERVER_MIN = 15


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Tell an edited migration from the one that was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration as the database remembers it."""

    version: int
    name: str
    checksum: str


@cache
def load_migrations() -> tuple[Migration, ...]:
    """Read this program's migrations, in order."""
    found = []
    for file in (resources.files("holdfast.store") / "migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.version))


async def migrate(url: str, migrations: tuple[Migration, ...] | None = None) -> list[Migration]:
    """Apply what is missing, each in a transaction of its own; returns what was applied."""
    migrations = load_migrations() if migrations is None else migrations
    connection = await _connect(url)
    try:
        await connection.execute("select pg_advisory_lock($1)", _LOCK)
        await connection.execute(
            "create schema if not exists holdfast; "
            "create table if not exists holdfast.schema_versions ("
            "version int primary key, name text not null, checksum text not null, "
            "applied_at timestamptz not null default clock_timestamp())"
        )
        missing = compare(await _applied(connection), migrations)
        for migration in missing:
            async with connection.transaction():
                await connection.execute(migration.text)
                await connection.execute(
                    "insert into holdfast.schema_versions (version, name, checksum) "
                    "values ($1, $2, $3)",
                    migration.version,
                    migration.name,
                    migration.checksum,
                )
        return missing
    finally:
        await connection.close()


async def read_applied(url: str) -> list[Applied]:
    """List what has been applied to a database."""
    connection = await _connect(url)
    try:
        if await connection.fetchval("select to_regclass('holdfast.schema_versions')") is None:
            return []
        return await _applied(connection)
    finally:
        await connection.close()


async def check_schema(url: str, migrations: tuple[Migration, ...] | None = None) -> None:
    """Raise SchemaMismatch unless the database's schema is exactly this program's."""
    migrations = load_migrations() if migrations is None else migrations
    missing = compare(await read_applied(url), migrations)
    if missing:
        raise SchemaMismatch(
            f"the database lacks migration {missing[0].version} ({missing[0].name}); "
            "run `holdfast db migrate`"
        )


def compare(applied: list[Applied], migrations: tuple[Migration, ...]) -> list[Migration]:
    """List what is missing; a newer or a different schema is an error."""
    known = {migration.version: migration for migration in migrations}
    for step in applied:
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
    done = {step.version for step in applied}
    return [migration for migration in migrations if migration.version not in done]


async def _applied(connection: Any) -> list[Applied]:
    rows = await connection.fetch(
        "select version, name, checksum from holdfast.schema_versions order by version"
    )
    return [Applied(*row) for row in rows]


async def _connect(url: str) -> Any:
    try:
        connection = await asyncpg.connect(url)
    except (ValueError, asyncpg.InterfaceError) as error:
        raise Invalid("database_url", f"{error}; write it like postgresql://host/name") from error
    except (OSError, asyncpg.PostgresError) as error:
        raise Unavailable(f"cannot connect to Postgres: {error}") from error
    major = connection.get_server_version().major
    if major < _SERVER_MIN:
        await connection.close()
        raise SchemaMismatch(f"Postgres {major} is too old; Holdfast needs {_SERVER_MIN} or newer")
    return connection
