"""Where datasets are on the wire, and how they are asked for."""

import msgspec

from holdfast.wire.datasets import CompareQuery, CutOverRequest, VersionRequest, dataset_path


def test_a_path_leads_to_a_dataset_or_something_of_it() -> None:
    assert dataset_path("events") == "/api/datasets/events"
    assert dataset_path("events", "versions", 3, "entries").endswith("/events/versions/3/entries")
    assert dataset_path("events:cut-over") == "/api/datasets/events:cut-over"
    assert dataset_path("a/b") == "/api/datasets/a%2Fb"


def test_what_is_left_out_is_not_sent() -> None:
    assert msgspec.json.encode(VersionRequest()) == b"{}"
    assert msgspec.json.encode(CutOverRequest(3)) == b'{"version":3}'
    compared = msgspec.to_builtins(CompareQuery("1", "current"))
    assert compared == {"from": "1", "to": "current"}
