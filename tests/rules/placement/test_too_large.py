"""What a queue's workers lack for a task that names resources."""

import pytest

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.rules.placement.too_large import describe_need, explain_too_large

SMALL, BIG = Capacity(2, 4_000_000_000), Capacity(8, 1_000_000_000)


@pytest.mark.parametrize(
    ("need", "why"),
    [
        (Resources(), None),
        (Resources(8, "1GB"), None),
        (Resources(9), "the largest has 8 cpu"),
        (Resources(1, "5GB", "1GB"), "the largest has 4GB memory, 0B disk"),
        (Resources(4, "2GB"), "none has 4 cpu, 2GB memory together"),
    ],
)
def test_what_no_worker_has_is_named(need: Resources, why: str | None) -> None:
    assert explain_too_large(need, [SMALL, BIG]) == why


def test_a_need_is_described_by_what_is_asked_for() -> None:
    assert describe_need(Resources(0.5, disk="3GB")) == "0.5 cpu, 3GB disk"
