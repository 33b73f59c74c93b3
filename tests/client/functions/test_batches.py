"""Batched functions: what their options may be, and what each task of them brings."""

from collections.abc import Sequence
from typing import Any

import pytest

import holdfast as hf
from holdfast.client.functions.batches import BatchSize, read_batch_size
from holdfast.client.request import request_call
from holdfast.errors import Invalid


@hf.task(batch=100, within=0.5)
def measure(words: list[str]) -> list[int]:
    """Measure words."""
    return [len(word) for word in words]


@hf.task(batch=10)
def take(values: Sequence[tuple[int, str]]) -> Any:
    """Take anything."""


def test_a_task_brings_one_item_and_has_one_result() -> None:
    assert measure(["a", "bc"]) == [1, 2]
    assert (measure.batch, take.batch) == (BatchSize(100, 0.5), BatchSize(10))
    assert measure.parameters.kinds["words"].shown == "str"
    assert measure.returns.shown == "int"
    assert take.parameters.kinds["values"].read([1, "a"]) == (1, "a")
    request = request_call(measure, ("a",), {})
    assert [bytes(arg) for arg in request.entrypoint.args] == [b'"a"']
    assert "batch" not in request.__struct_fields__
    with pytest.raises(Invalid, match="words"):
        request_call(measure, (["a"],), {})
    with pytest.raises(Invalid, match="cannot be called so"):
        request_call(measure, ("a", "b"), {})


@pytest.mark.parametrize(
    ("tasks_max", "within", "field"),
    [(0, None, "batch"), (1001, None, "batch"), (None, 1.0, "within"), (2, -1.0, "within"),
     (2, 61.0, "within"), (2, float("nan"), "within")],
)  # fmt: skip
def test_what_no_batch_can_be_is_refused(
    tasks_max: int | None, within: float | None, field: str
) -> None:
    assert read_batch_size(None, None) is None
    with pytest.raises(Invalid, match=f"^{field}: "):
        read_batch_size(tasks_max, within)


def test_a_batched_function_takes_one_list_alone() -> None:
    def two(items: list[int], other: int) -> list[int]:
        return items

    def with_context(items: list[int], *, ctx: hf.Context) -> list[int]:
        return items

    def by_name(*, items: list[int]) -> list[int]:
        return items

    for function in (two, with_context, by_name):
        with pytest.raises(Invalid, match="does not take one list alone"):
            hf.task(batch=2)(function)
    with pytest.raises(Invalid, match="leave isolation out"):
        hf.task(batch=2, isolation="process")
    with pytest.raises(Invalid, match="give it to its decorator"):
        measure.with_options(batch=2)
    assert measure.with_options(retries=2).batch == BatchSize(100, 0.5)
