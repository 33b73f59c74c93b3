"""The file that shows the whole schema shows the schema that there is."""

from tests.store.schema_text import SCHEMA_FILE, read_schema


async def test_schema_sql_is_what_a_new_database_has(shared_database_url: str) -> None:
    written = SCHEMA_FILE.read_text(encoding="utf-8")
    assert written == await read_schema(shared_database_url), "run `./run schema`"
