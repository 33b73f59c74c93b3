"""Three failed heartbeats in a row are the end of an incarnation."""

import pytest

from holdfast.rules.health import judge


@pytest.mark.parametrize(
    ("failures", "health"),
    [(0, "healthy"), (1, "failing"), (2, "failing"), (3, "dead"), (4, "dead")],
)
def test_a_worker_is_judged_by_its_failures_in_a_row(failures: int, health: str) -> None:
    assert judge(failures) == health
