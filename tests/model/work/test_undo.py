"""The record that a compensation is given."""

import msgspec

from holdfast.model.work.undo import UndoRecord


def test_a_record_of_the_next_version_can_be_read_and_lacks_nothing() -> None:
    text = b'{"job_id": "1", "state": "FAILED", "input": [1.0], "news": true}'
    record = msgspec.json.decode(text, type=UndoRecord)
    assert bytes(record.input) == b"[1.0]"
    assert bytes(record.result) == b"null"
    assert msgspec.json.decode(msgspec.json.encode(record), type=UndoRecord) == record
