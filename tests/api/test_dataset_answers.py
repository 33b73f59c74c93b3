"""Rows of datasets in the words of the protocol."""

from datetime import UTC, datetime

from holdfast.api import dataset_answers as answers
from holdfast.rules.comparison import Difference
from holdfast.store.reads.datasets import CutOverRow, DatasetRow, EntryRow, TriggerRow, VersionRow

NOW = datetime.fromtimestamp(1, UTC)
ENTRY = EntryRow("k", "p", "u", 7, "c", '{"n":1}', 4182, 3, 1, NOW, None)


def test_a_dataset_and_its_versions_are_told() -> None:
    dataset = answers.dataset(DatasetRow("events", NOW, "ann", '{"a":1}', 1, 2))
    assert (dataset.metadata, dataset.created_at_ms, dataset.newest_version) == ({"a": 1}, 1000, 2)
    row = VersionRow(2, "open", NOW, "ann", 1, 4182, None, None, None, None, None)
    version = answers.version("events", row)
    assert (version.dataset, version.job_id, version.cut_over_at_ms) == ("events", "4182", None)


def test_an_entry_names_the_attempt_that_committed_it() -> None:
    entry = answers.entry(ENTRY)
    assert (entry.task_id, entry.attempt, entry.metadata) == ("4182.3", 1, {"n": 1})
    bare = answers.entry(ENTRY._replace(metadata=None))
    assert bare.metadata is None


def test_a_difference_tells_what_was_and_what_is() -> None:
    told = answers.difference(Difference("removed", "k", ENTRY, None))
    assert (told.kind, told.before, told.after) == ("removed", answers.entry(ENTRY), None)


def test_cut_overs_and_triggers_are_told() -> None:
    record = answers.cut_over(CutOverRow(3, 2, 1, NOW, "ann", None, True))
    assert (record.number, record.previous, record.forced) == (3, 1, True)
    row = TriggerRow("look", '{"queue":"q"}', NOW, "ann", NOW, 2, None, None, "no open version")
    trigger = answers.trigger(row)
    assert (trigger.spec, trigger.last_job_id, trigger.problem) == (
        {"queue": "q"}, None, "no open version",
    )  # fmt: skip
