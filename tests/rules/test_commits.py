"""What the entries of a completion do to the versions that its job writes."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.datasets import ENTRIES_BYTES_MAX, ENTRIES_MAX, OutputEntry
from holdfast.model.submitting.order import OutputMode
from holdfast.rules.commits import (
    EntryKey,
    NewEntry,
    Standing,
    Target,
    check_entries,
    keep_new,
    plan_entries,
    split_rounds,
)

ONE = {"events": Target(3, "append")}
TWO = {"events": Target(3, "append"), "users": Target(1, "replace")}


def entry(partition_key: str, uri: str = "u", key: str | None = None) -> OutputEntry:
    return OutputEntry(partition_key, uri, key=key)


def plan(mode: OutputMode, *entries: OutputEntry) -> dict[EntryKey, NewEntry]:
    return plan_entries(entries, {"events": Target(3, mode)})


def test_an_entry_goes_to_the_only_dataset_under_its_partition_key() -> None:
    [(place, new)] = plan_entries([OutputEntry("p", "u", 7, "c", {"k": 1})], ONE).items()
    assert place == EntryKey("events", 3, "p")
    assert new == NewEntry(0, place, "p", "u", 7, "c", '{"k":1}', "append")


def test_a_dataset_is_named_where_there_are_several() -> None:
    planned = plan_entries([OutputEntry("p", "u", dataset="users", key="k")], TWO)
    assert [*planned] == [EntryKey("users", 1, "k")]
    with pytest.raises(Invalid, match=r"outputs\[0\]\.dataset: is missing.*events, users"):
        plan_entries([entry("p")], TWO)
    with pytest.raises(Invalid, match="others is not among this job's outputs: events"):
        plan_entries([OutputEntry("p", "u", dataset="others")], ONE)
    with pytest.raises(Invalid, match="declares no outputs"):
        plan_entries([entry("p")], {})


def test_the_same_entry_twice_is_one_and_two_under_one_key_are_refused() -> None:
    assert len(plan("append", entry("p"), entry("p"))) == 1
    with pytest.raises(Invalid, match=r"outputs\[2\]\.key: 'p' is given twice"):
        plan("append", entry("q"), entry("p"), entry("p", "other"))


def test_what_stands_there_already_is_left_out() -> None:
    planned = plan("append", entry("p"), entry("q"))
    standing = {EntryKey("events", 3, "p"): Standing("p", "u", None)}
    assert [new.entry_key.key for new in keep_new(planned, standing)] == ["q"]
    other = {EntryKey("events", 3, "q"): Standing("q", "u", "sum")}
    with pytest.raises(Invalid, match=r"outputs\[1\]\.key: .* another entry under 'q', u"):
        keep_new(planned, other)


def test_a_replaced_partition_is_written_anew() -> None:
    planned = plan("replace", entry("p", "new", "1"), entry("p", "new", "2"))
    same = {EntryKey("events", 3, "1"): Standing("p", "old", None)}
    assert len(keep_new(planned, same)) == 2
    others = {EntryKey("events", 3, "1"): Standing("q", "new", None)}
    with pytest.raises(Invalid, match="another entry"):
        keep_new(planned, others)


def test_completions_that_touch_the_same_are_written_in_turn() -> None:
    def rounds(*plans: dict[EntryKey, NewEntry]) -> list[list[int]]:
        return [list(turn) for turn in split_rounds(dict(enumerate(plans)))]

    a, b = plan("append", entry("p", key="1")), plan("append", entry("p", key="2"))
    assert rounds(a, b) == [[0, 1]]
    assert rounds(a, plan("append", entry("q", key="1")), b) == [[0, 2], [1]]
    replacing = plan("replace", entry("p", key="3"))
    assert rounds(a, replacing, b) == [[0, 2], [1]]
    assert rounds(replacing, replacing, plan("replace", entry("q"))) == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ([entry("")], r"outputs\[0\]\.partition_key: is empty"),
        ([entry("p"), entry("p", "")], r"outputs\[1\]\.uri: is empty"),
        ([entry("p", "\ud800")], r"outputs\[0\]\.uri: contains half"),
        ([OutputEntry("p", "u", 2**53)], r"outputs\[0\]\.size_bytes"),
        ([OutputEntry("p", "u", metadata={"a\0": 1})], r"outputs\[0\]\.metadata"),
        ([entry("p")] * (ENTRIES_MAX + 1), "outputs: 10001 entries"),
        ([entry("p", "u" * 4096)] * (ENTRIES_BYTES_MAX // 4096 + 1), "outputs: .* bytes is over"),
    ],
)
def test_what_cannot_be_stored_is_refused(entries: list[OutputEntry], field: str) -> None:
    with pytest.raises(Invalid, match=field):
        check_entries(entries)


def test_a_version_may_be_named_if_it_is_the_one_that_the_job_writes() -> None:
    named = OutputEntry("p", "u", dataset_version=3)
    assert plan("append", named) == plan("append", entry("p"))
    with pytest.raises(Invalid) as refused:
        plan("append", OutputEntry("p", "u", dataset_version=4))
    assert refused.value.field == "outputs[0].dataset_version"
