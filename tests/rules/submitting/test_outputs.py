"""What a job may declare as its outputs."""

from typing import Any

import pytest

from holdfast.errors import Invalid, Refused
from holdfast.model.submitting.order import Output
from holdfast.rules.submitting.outputs import (
    OUTPUTS_MAX,
    check_declared,
    check_name,
    choose_again,
    declare,
    explain_closed_version,
)


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "9", "x" * 100])
def test_plain_names_are_names(name: str) -> None:
    check_name("name", name)


@pytest.mark.parametrize(
    "name", ["", ".a", "-a", "a/b", "a b", "é", "a\0", "a\n", "x" * 101, "a:b"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="name: "):
        check_name("name", name)


def test_a_job_writes_one_version_of_each_dataset() -> None:
    check_declared([])
    check_declared([Output("a"), Output("b", 3, "replace"), Output("c", "new")])
    with pytest.raises(Invalid, match=r"outputs\[1\]\.dataset: names a again"):
        check_declared([Output("a", 1), Output("a", 2)])


@pytest.mark.parametrize(
    ("outputs", "field"),
    [
        ([Output("a"), Output("b/c")], r"outputs\[1\]\.dataset"),
        ([Output("a", 0)], r"outputs\[0\]\.version"),
        ([Output("a", 2**31)], r"outputs\[0\]\.version"),
        ([Output(f"d{n}") for n in range(OUTPUTS_MAX + 1)], "outputs: 101 datasets"),
    ],
)
def test_what_cannot_be_declared_is_refused(outputs: list[Output], field: str) -> None:
    with pytest.raises(Refused, match=field):
        check_declared(outputs)


def test_a_version_that_cannot_be_written_says_why() -> None:
    assert explain_closed_version("a", 3, None).startswith("dataset a has no version 3; open one")
    assert (
        explain_closed_version("a", 3, "sealed")
        == "version 3 of dataset a is sealed; open another one"
    )


@pytest.mark.parametrize(
    ("declared", "state", "rebind", "version"),
    [
        (None, "open", False, 3),
        ("new", "open", True, 3),
        ("newest", "sealed", False, None),
        ("new", "sealed", False, "new"),
        ("new", "dropped", True, "new"),
        (None, "sealed", True, None),
    ],
)
def test_a_replay_chooses_again_what_is_not_open(
    declared: Any, state: str, rebind: bool, version: Any
) -> None:
    chosen = choose_again(Output("a", 3, "replace"), declared, state, rebind=rebind)
    assert chosen == Output("a", version, "replace")


def test_a_version_that_was_named_is_not_exchanged_unasked() -> None:
    with pytest.raises(Invalid, match="rebind_outputs: version 3 of dataset a is dropped; set"):
        choose_again(Output("a", 3), None, "dropped", rebind=False)
    assert declare([Output("a", 1), Output("b"), Output("c", "new")]) == {"b": "newest", "c": "new"}
