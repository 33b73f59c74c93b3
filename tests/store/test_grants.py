"""A role without any right gets exactly what servers need."""

from collections.abc import AsyncIterator

import pytest

from holdfast.errors import Invalid
from holdfast.store.grants import grant
from holdfast.store.migrate import check_schema
from tests.conftest import run_sql
from tests.store.raw import Raw

ROLE = 'Shop "server"'
QUOTED = '"Shop ""server"""'


@pytest.fixture
async def role(direct_url: str) -> AsyncIterator[str]:
    """A role that may connect, with a name that has to be quoted."""
    await run_sql(direct_url, f"create role {QUOTED} login")
    yield ROLE
    await run_sql(direct_url, f"drop owned by {QUOTED}", f"drop role {QUOTED}")


async def test_a_role_is_let_in_once_and_again_and_keeps_to_reading_versions(
    role: str, direct_url: str, lasting: Raw
) -> None:
    assert await grant(direct_url, role) == await grant(direct_url, role)
    await check_schema(direct_url.replace("postgres@", "Shop%20%22server%22@"))

    async def may(right: str, table: str) -> bool:
        asked = "select has_table_privilege($1, $2, $3)"
        return bool(await lasting.value(asked, role, table, right))

    assert await may("insert", "holdfast.jobs")
    assert await may("select", "holdfast.schema_versions")
    assert not await may("insert", "holdfast.schema_versions")
    assert not await may("truncate", "holdfast.jobs")
    assert not await may("trigger", "holdfast.tasks")


async def test_a_table_of_a_later_migration_is_granted_already(
    role: str, direct_url: str, lasting: Raw
) -> None:
    await grant(direct_url, role)
    await lasting.run("create table holdfast.later (id bigserial)")
    asked = "select has_table_privilege($1, 'holdfast.later', 'insert')"
    assert await lasting.value(asked, role)
    await lasting.run("drop table holdfast.later")


@pytest.fixture
async def keeper(direct_url: str) -> AsyncIterator[str]:
    """The role that owns the schema, and is not the superuser of the tests."""
    await run_sql(direct_url, "create role keeper", "alter schema holdfast owner to keeper")
    yield "keeper"
    await run_sql(
        direct_url,
        "alter schema holdfast owner to postgres",
        *("drop owned by keeper cascade", "drop role keeper"),
    )


async def test_what_the_owner_adds_later_is_granted_also_if_a_superuser_has_let_the_role_in(
    role: str, keeper: str, direct_url: str, lasting: Raw
) -> None:
    await grant(direct_url, role)
    await lasting.run(f"set role {keeper}; create table holdfast.later (id bigserial); reset role")
    for asked in (
        "select has_table_privilege($1, 'holdfast.later', 'insert')",
        "select has_sequence_privilege($1, 'holdfast.later_id_seq', 'usage')",
    ):
        assert await lasting.value(asked, role)


async def test_whoever_does_not_own_the_schema_is_told_so_instead_of_granting_nothing(
    role: str, direct_url: str
) -> None:
    await grant(direct_url, role)
    with pytest.raises(Invalid, match="only 'postgres', who owns the schema"):
        await grant(direct_url.replace("postgres@", "Shop%20%22server%22@"), "pg_monitor")


@pytest.mark.parametrize("wrong", ["nobody_at_all", "postgres", "x; drop schema holdfast"])
async def test_a_role_that_is_not_there_or_owns_the_schema_is_refused(
    direct_url: str, wrong: str
) -> None:
    with pytest.raises(Invalid, match=r"may do all this|make both first"):
        await grant(direct_url, wrong)
