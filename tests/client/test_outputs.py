"""What a running function says it has written."""

from typing import Any

import pytest

from holdfast.client import outputs as collecting
from holdfast.client.outputs import Outputs
from holdfast.errors import Invalid, TooLarge
from holdfast.model.datasets import OutputEntry
from holdfast.model.submitting.order import Output

EVENTS = Output("events", 3)
USERS = Output("users", 1, "replace")


def test_entries_are_collected_for_the_only_dataset() -> None:
    output = Outputs([EVENTS])
    output("p", "s3://x", size_bytes=1, checksum="c", metadata={"n": (1, 2)}, key="k")
    output("q", "s3://y", dataset="events")
    assert output.entries == [
        OutputEntry("p", "s3://x", 1, "c", {"n": [1, 2]}, "events", "k"),
        OutputEntry("q", "s3://y", dataset="events"),
    ]
    assert output.version() == output.version("events") == 3


def test_one_of_several_has_to_be_named() -> None:
    output = Outputs([EVENTS, USERS])
    output("p", "u", dataset="users")
    assert (output.entries[0].dataset, output.version("users")) == ("users", 1)
    for wrong in (None, "others"):
        with pytest.raises(Invalid, match=r"dataset: .*events, users"):
            output("p", "u", dataset=wrong)
    with pytest.raises(Invalid, match=r"dataset: .*none"):
        Outputs([])("p", "u")


@pytest.mark.parametrize(
    "fields",
    [{"metadata": {"x": object()}}, {"metadata": {"x": float("nan")}}, {"size_bytes": "7"}],
)
def test_what_cannot_be_sent_is_told_at_once(fields: dict[str, Any]) -> None:
    output = Outputs([EVENTS])
    with pytest.raises(Invalid, match="output: cannot be sent"):
        output("p", "u", **fields)
    assert output.entries == []


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "ENTRIES_MAX", 1)
    output = Outputs([EVENTS])
    output("p", "u")
    with pytest.raises(TooLarge, match="outputs: 2 entries"):
        output("q", "u")
