"""Reports of servers as they are stored and sent: of another version's, what is known is read."""

import msgspec

from holdfast.wire.checkup import ChoreReport, FolderReport, ServerReport


def test_a_report_is_read_again_as_it_was_written() -> None:
    report = ServerReport(
        chores=[ChoreReport("prune", 2.5, "no right")],
        folders=[FolderReport("object store", "/o", 10, 3)],
        certificate_expires_at_ms=7,
        is_pooled=True,
        is_heard=False,
    )
    assert msgspec.json.decode(msgspec.json.encode(report), type=ServerReport) == report


def test_a_report_of_another_version_is_read_as_far_as_it_is_known() -> None:
    text = b'{"chores": [], "weather": "fine"}'
    assert msgspec.json.decode(text, type=ServerReport) == ServerReport()
