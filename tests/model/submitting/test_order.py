"""What jobs have to do with others: which end of the one lets the other start."""

import msgspec
import pytest

from holdfast.model.submitting.order import Condition, Dependency, holds
from holdfast.model.submitting.spec import JobSpec


@pytest.mark.parametrize(
    ("condition", "after_success", "after_another_end"),
    [("succeeded", True, False), ("failed", False, True), ("ended", True, True)],
)
def test_a_condition_holds_after_some_ends(
    condition: Condition, after_success: bool, after_another_end: bool
) -> None:
    assert holds(condition, succeeded=True) is after_success
    assert holds(condition, succeeded=False) is after_another_end


def test_a_dependency_is_written_as_short_as_it_can_be_read() -> None:
    text = '{"entrypoint":{"shell":"true"},"depends_on":["7",{"job":"8","condition":"ended"}]}'
    spec = msgspec.json.decode(text, type=JobSpec)
    assert spec.depends_on == ["7", Dependency("8", "ended")]
    assert msgspec.json.decode(msgspec.json.encode(spec)) == msgspec.json.decode(text)


@pytest.mark.parametrize(
    "given", ['{"job":"8","condition":"maybe"}', '{"job":"8","when":"ended"}', '{"job":8}', "8"]
)
def test_what_is_no_dependency_is_not_read_as_one(given: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(given, type=str | Dependency)
