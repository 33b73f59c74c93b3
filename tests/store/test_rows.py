"""The shapes of rows fit the statements that fill them."""

import pytest

from holdfast.store.events import Event
from holdfast.store.statements import load_statements
from tests.store.raw import Raw


async def columns_of(raw: Raw, aggregate: str, name: str) -> list[str]:
    prepared = await raw.connection.prepare(load_statements(aggregate)[name].text)
    return [column.name for column in prepared.get_attributes()]


@pytest.mark.parametrize("name", ["read_events", "list_events"])
async def test_an_events_columns_come_in_the_order_of_its_fields(raw: Raw, name: str) -> None:
    assert await columns_of(raw, "events", name) == list(Event._fields)
