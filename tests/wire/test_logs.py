"""Searches of logs on the wire."""

import msgspec
import pytest

from holdfast.wire.logs import LogLine, LogLinePage, LogLineQuery


def test_a_page_says_what_it_says() -> None:
    line = LogLine(task_id="7.0", attempt=1, offset=3, stored_at_ms=5, text="ä")
    assert msgspec.to_builtins(LogLinePage([line])) == {
        "lines": [{"task_id": "7.0", "attempt": 1, "offset": 3, "stored_at_ms": 5, "text": "ä"}],
        "next_page_token": None,
    }


@pytest.mark.parametrize("field", ["task_index", "attempt"])
def test_a_task_is_named_by_its_number(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({field: -1}, LogLineQuery)
