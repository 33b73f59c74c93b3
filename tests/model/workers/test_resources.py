"""Sizes and conditions as people write them."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.workers.resources import (
    Capacity,
    Constraint,
    Resources,
    fits,
    parse_size,
    subtract,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (7, 7),
        ("512B", 512),
        ("0", 0),
        ("4GB", 4_000_000_000),
        ("4g", 4_000_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("2 Ki", 2048),
        ("3tb", 3 * 10**12),
    ],
)
def test_a_size_is_read_as_people_write_it(text: int | str, size: int) -> None:
    assert parse_size(text, "memory") == size


def test_a_text_without_a_unit_is_refused() -> None:
    for text in ("4", " 1.5"):
        remedy = f"{text.strip()} has no unit; write {text.strip()}GB, or {text.strip()}B for bytes"
        with pytest.raises(Invalid, match=f"^disk: {remedy}$"):
            parse_size(text, "disk")


@pytest.mark.parametrize("text", ["", "much", "4 elephants", "-1GB", "1e9", "GB"])
def test_what_is_no_size_is_refused_by_field_and_remedy(text: str) -> None:
    with pytest.raises(Invalid, match=r"memory: .* is not a size; write bytes, or a size such as"):
        parse_size(text, "memory")


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint("region", "=", "eu"), "region=eu"),
        (Constraint("spot", "!=", True), "spot!=true"),
        (Constraint("rack", "in", ["r1", 2]), "rack in (r1, 2)"),
        (Constraint("gpu_gb", ">=", 40), "gpu_gb >= 40"),
        (Constraint("nvme", "exists"), "nvme exists"),
    ],
)
def test_a_constraint_reads_as_people_write_it(constraint: Constraint, text: str) -> None:
    assert str(constraint) == text


def test_what_a_task_takes_is_missing_afterwards() -> None:
    room, need = Capacity(1.0, 4 * 10**9, 100), Resources(cpu=0.75, memory="3GB", disk=100)
    assert fits(need, room)
    left = subtract(room, need)
    assert left == Capacity(0.25, 10**9, 0)
    assert not fits(need, left)
    assert subtract(left, Capacity(9.0, 0, 9)) == Capacity(0.0, 10**9, 0)


def test_fractions_of_cores_fill_a_worker_however_they_add_up() -> None:
    room = Capacity(cpu=1.0)
    for _ in range(10):
        assert fits(Resources(cpu=0.1), room)
        room = subtract(room, Resources(cpu=0.1))
    assert not fits(Resources(cpu=0.1), room)
