"""Dead letters and replays as they go over the wire."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.wire.dead_letters import DeadLetter, DeadLetterPage, ReplayAnswer, Replayed


@pytest.mark.parametrize("shape", [DeadLetter, DeadLetterPage, ReplayAnswer, Replayed])
def test_every_field_is_always_there_and_readers_ignore_more(shape: Any) -> None:
    assert not shape.__struct_config__.omit_defaults
    assert not shape.__struct_config__.forbid_unknown_fields
    assert shape.__doc__


def test_an_input_passes_untouched() -> None:
    text = b'{"n":12345678901234567890.0}'
    letter = DeadLetter(
        task_id="1.0",
        type="t",
        reason_code="timeout",
        attempts=1,
        correlation_id="c",
        dead_lettered_at=datetime(2026, 3, 1, tzinfo=UTC),
        input=msgspec.Raw(text),
    )
    assert text in msgspec.json.encode(letter)
