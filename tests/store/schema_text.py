"""The whole schema as a database has it, as text; run as a module, it writes `schema.sql` anew.

Tables stand in the order of their making, each with its constraints, indexes and triggers; then
views and functions. Triggers are listed by name, which is the order in which they fire.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.migrate import migrate
from tests.databases import connect

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "holdfast" / "store" / "schema.sql"

_HEADER = """\
-- The whole schema as Postgres has it, to be read; `holdfast db migrate` makes it from schema/.
-- Written by `./run schema`; a test compares it with what a new database has.
"""

_TYPES = """
select format(E'create type %s as enum (\\n    %s\\n);', enumtypid::regtype,
              string_agg(quote_literal(enumlabel), E',\\n    ' order by enumsortorder))
  from pg_enum join pg_type on pg_type.oid = enumtypid
 where typnamespace = 'holdfast'::regnamespace group by enumtypid order by enumtypid"""

# Sequences of identity columns belong to their tables.
_SEQUENCES = """
select format('create sequence %s;', oid::regclass) from pg_class
 where relnamespace = 'holdfast'::regnamespace and relkind = 'S'
   and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'i')
 order by oid"""

_TABLES = """
select oid, oid::regclass::text as name,
       (select format('partition of %s %s', inhparent::regclass, pg_get_expr(relpartbound, oid))
          from pg_inherits where inhrelid = oid),
       concat(E'\\npartition by ' || pg_get_partkeydef(oid),
              E'\\nwith (' || (select string_agg(option, ', ' order by option)
                               from unnest(reloptions) as option) || ')')
  from pg_class
 where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') order by oid"""

_COLUMNS = """
select concat_ws(' ', attname, format_type(atttypid, atttypmod),
                 'collate ' || (select quote_ident(collname) from pg_collation
                                 where pg_collation.oid = attcollation and collname <> 'default'),
                 case when attnotnull then 'not null' end,
                 case attidentity when 'a' then 'generated always as identity' end,
                 'default ' || pg_get_expr(adbin, adrelid))
  from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
 where attrelid = $1 and attnum > 0 and not attisdropped order by attnum"""

_CONSTRAINTS = """
select format('constraint %I %s', conname, pg_get_constraintdef(oid, true)) from pg_constraint
 where conrelid = $1 and contype in ('p', 'u', 'f', 'c') order by contype = 'c', oid"""

_INDEXES = """
select pg_get_indexdef(indexrelid, 0, true) || ';' from pg_index
 where indrelid = $1 and not exists (select from pg_constraint where conindid = indexrelid)
   and not exists (select from pg_inherits where inhrelid = indexrelid)
 order by indexrelid"""

_TRIGGERS = """
select pg_get_triggerdef(oid, true) || ';' from pg_trigger
 where tgrelid = $1 and not tgisinternal and tgparentid = 0 order by tgname"""

_VIEWS = """
select format(E'create view %s as\\n%s', oid::regclass, pg_get_viewdef(oid, true))
  from pg_class where relnamespace = 'holdfast'::regnamespace and relkind = 'v' order by oid"""

_FUNCTIONS = """
select rtrim(pg_get_functiondef(oid), E'\\n') || E';\\n'
       || case when has_function_privilege('public', oid, 'execute') then ''
               else format(E'revoke all on function %s from public;\\n', oid::regprocedure) end
  from pg_proc where pronamespace = 'holdfast'::regnamespace order by oid"""


async def read_schema(url: str) -> str:
    """Write down the schema of a database."""
    connection = await connect(url)
    try:
        parts = [_HEADER, *await _read(connection, _TYPES), *await _read(connection, _SEQUENCES)]
        for row in await connection.fetch(_TABLES):
            parts.append(await _read_table(connection, *row))
        parts += [*await _read(connection, _VIEWS), *await _read(connection, _FUNCTIONS)]
    finally:
        await connection.close()
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


async def _read_table(
    connection: Any, table: int, name: str, partition: str | None, options: str
) -> str:
    shape = partition
    if shape is None:
        columns = await _read(connection, _COLUMNS, table)
        constraints = await _read(connection, _CONSTRAINTS, table)
        shape = "(\n    " + ",\n    ".join(columns + constraints) + "\n)"
    lines = [
        f"create table {name} {shape}{options};",
        *await _read(connection, _INDEXES, table),
        *await _read(connection, _TRIGGERS, table),
    ]
    return "\n".join(lines)


async def _read(connection: Any, query: str, *arguments: Any) -> list[str]:
    return [row[0] for row in await connection.fetch(query, *arguments)]


async def _read_new(url: str) -> str:
    await migrate(url)
    return await read_schema(url)


def main() -> int:
    """Write the schema of a new database into the file that shows it."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder, "new")) as postgres:
        text = asyncio.run(_read_new(postgres.url("postgres")))
    SCHEMA_FILE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {SCHEMA_FILE.name}: {text.count(chr(10))} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
