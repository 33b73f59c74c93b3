"""Ids that people can type."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid
from holdfast.model.work.ids import (
    INDEX_MAX,
    JOB_ID_MAX,
    AttemptId,
    TaskId,
    check_index,
    check_job_id,
    check_task_id,
    check_worker_id,
    parse_attempt_id,
    parse_job_id,
    parse_task_id,
)

job_ids = some.integers(1, JOB_ID_MAX)
indexes = some.integers(0, INDEX_MAX)


def test_the_examples_of_the_specification() -> None:
    assert parse_job_id("4182") == 4182
    assert parse_task_id("4182.3") == TaskId(4182, 3)
    assert parse_attempt_id("4182.3.1") == AttemptId(4182, 3, 1)
    assert str(TaskId(4182, 3)) == "4182.3"
    assert str(AttemptId(4182, 3, 1)) == "4182.3.1"


@given(job_ids)
def test_every_job_id_reads_back(job_id: int) -> None:
    assert parse_job_id(str(job_id)) == job_id


@given(job_ids, indexes)
def test_every_task_id_reads_back(job_id: int, index: int) -> None:
    assert parse_task_id(str(TaskId(job_id, index))) == TaskId(job_id, index)


@given(job_ids, indexes, indexes)
def test_every_attempt_id_reads_back(job_id: int, index: int, attempt: int) -> None:
    attempt_id = AttemptId(job_id, index, attempt)
    assert parse_attempt_id(str(attempt_id)) == attempt_id


NEVER = ["", " 1", "1 ", "1\n", "-1", "+1", "01", "0x1", "1e3", "1_0", "٣", "²", "a", ".", "0"]


@pytest.mark.parametrize("text", [*NEVER, "1.2", str(JOB_ID_MAX + 1), "9" * 30], ids=ascii)
def test_what_is_no_job_id_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_job_id(text)
    assert caught.value.field == "job_id"


@pytest.mark.parametrize(
    "text",
    [*NEVER, "1", "1.", ".1", "1..2", "1.2.3", "0.1", "1.02", "1.-1", "1.2\n", "1,2",
     f"1.{INDEX_MAX + 1}", f"{JOB_ID_MAX + 1}.0"],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_task_id_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_task_id(text)
    assert caught.value.field == "task_id"


@pytest.mark.parametrize(
    "text", [*NEVER, "1", "1.2", "1.2.3.4", "1.2.", "0.0.0", f"1.0.{INDEX_MAX + 1}"], ids=ascii
)
def test_what_is_no_attempt_id_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_attempt_id(text)
    assert caught.value.field == "attempt_id"


@given(some.text(max_size=30))
def test_any_text_is_an_id_or_refused_and_never_two_texts_for_one_id(text: str) -> None:
    readers: list[Callable[[str], Any]] = [parse_job_id, parse_task_id, parse_attempt_id]
    for read in readers:
        with suppress(Invalid):
            assert str(read(text)) == text


@pytest.mark.parametrize("value", [0, -1, JOB_ID_MAX + 1, True, 1.0, "1", None])
def test_a_number_that_no_job_can_have_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="replay_of"):
        check_job_id(value, "replay_of")


@pytest.mark.parametrize("value", [-1, INDEX_MAX + 1, True, 1.0, "1", None])
def test_a_number_that_no_index_can_be_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="attempt"):
        check_index(value, "attempt")


@pytest.mark.parametrize("task_id", [TaskId(0, 0), TaskId(1, -1), TaskId(True, 0)])
def test_a_pair_that_no_task_can_have_is_refused(task_id: TaskId) -> None:
    with pytest.raises(Invalid) as caught:
        check_task_id(task_id)
    assert caught.value.field == "task_id"


@pytest.mark.parametrize("value", [1, JOB_ID_MAX])
def test_the_bounds_themselves_are_job_ids(value: int) -> None:
    assert check_job_id(value) == value


@pytest.mark.parametrize("worker_id", ["w", "host-1.example:8080/a@b", "a" * 128, "0"])
def test_a_worker_id_is_a_plain_name(worker_id: str) -> None:
    assert check_worker_id(worker_id) == worker_id


@pytest.mark.parametrize(
    "worker_id", ["", "-a", "a b", "a\x00", "a\n", "é", "\ud800", "a" * 129, 1, None], ids=ascii
)
def test_what_cannot_name_a_worker_is_refused(worker_id: Any) -> None:
    with pytest.raises(Invalid) as caught:
        check_worker_id(worker_id)
    assert caught.value.field == "worker_id"
