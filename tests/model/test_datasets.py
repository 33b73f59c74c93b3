"""What a task commits, in numbers and words."""

import msgspec
import pytest

from holdfast.errors import Invalid, LeaseConflict, TooLarge
from holdfast.model.datasets import OutputEntry, refusal_stage, weigh


def test_an_entry_is_written_without_what_was_left_out() -> None:
    entry = OutputEntry("p", "s3://x")
    assert msgspec.json.encode(entry) == b'{"partition_key":"p","uri":"s3://x"}'
    with pytest.raises(msgspec.ValidationError, match="unknown field `size`"):
        msgspec.json.decode(b'{"partition_key":"p","uri":"x","size":1}', type=OutputEntry)


def test_entries_weigh_about_what_they_take() -> None:
    entries = [OutputEntry("p" * 100, "u" * 1000, metadata={"k": "v" * 500})] * 3
    assert weigh([]) == 0
    assert weigh(entries) >= len(msgspec.json.encode(entries)) - 200


@pytest.mark.parametrize(
    ("refusal", "stage"),
    [
        (Invalid("outputs[0].key", "is taken"), "commit"),
        (TooLarge("outputs", 2, 1), "commit"),
        (TooLarge("result", 2, 1), "output"),
        (LeaseConflict(None, "lost"), "output"),
    ],
)
def test_a_refused_success_failed_at_a_stage(refusal: Exception, stage: str) -> None:
    assert refusal_stage(refusal) == stage
