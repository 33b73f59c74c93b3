"""What placed work needs and what workers have: amounts, attributes, and conditions on them."""

import re
from typing import Literal

import msgspec

from holdfast.errors import Invalid

Operator = Literal["=", "!=", "in", "not in", "exists", "<", "<=", ">", ">="]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "in", "not in", "exists", "<", "<=", ">", ">=")
AttributeValue = bool | int | float | str
HostLayout = Literal["spread", "pack"]
GPU_MAX = 1024

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)b?\s*", re.IGNORECASE)
_CPU_ERROR = 1e-6  # what adding up fractions of cores may have cost
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one task needs. Sizes are bytes, or texts such as 4GB; ports are names."""

    cpu: float = 1.0
    memory: int | str = 0
    disk: int | str = 0
    gpu: int = 0
    gpu_model: str | None = None
    ports: list[str] = []


class Capacity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one worker has to give; sizes are bytes, `devices` the ids of its GPUs."""

    cpu: float = 0.0
    memory: int = 0
    disk: int = 0
    gpu: int = 0
    gpu_model: str | None = None
    devices: list[str] = []


class Constraint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on one attribute of a worker; `in` and `not in` take a list."""

    attribute: str
    op: Operator = "="
    value: AttributeValue | list[AttributeValue] | None = None

    def __str__(self) -> str:
        """Write it the way people do: region=eu, gpu_gb >= 40, rack in (r1, r2)."""
        if self.op == "exists":
            return f"{self.attribute} exists"
        if isinstance(self.value, list):
            return f"{self.attribute} {self.op} ({', '.join(map(_word, self.value))})"
        gap = "" if self.op in ("=", "!=") else " "
        return f"{self.attribute}{gap}{self.op}{gap}{_word(self.value)}"


class Coscheduling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A gang: all tasks start together; `group_by` names an attribute their workers share.

    `hosts`: "spread" puts each task on a host of its own, "pack" all of them on one host.
    """

    group_by: str | None = None
    hosts: HostLayout | None = None


def parse_size(text: int | str, field: str) -> int:
    """Read a number of bytes: 512, 4GB, 1.5 GiB; K, M, G are powers of 1000, Ki, Mi, Gi of 1024.

    A text has a unit: a bare number that somebody has typed seldom means bytes.
    """
    if isinstance(text, int):
        return text
    number = text.strip()
    if number.replace(".", "", 1).isdecimal() and float(number):
        raise Invalid(field, f"{number} has no unit; write {number}GB, or {number}B for bytes")
    found = _SIZE.fullmatch(text)
    if found is None:
        raise Invalid(field, f"{text!r} is not a size; write bytes, or a size such as 4GB")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])


def fits(need: Resources, free: Capacity) -> bool:
    """Tell whether the cores, memory and disk that a task needs are there."""
    return (
        need.cpu <= free.cpu + _CPU_ERROR
        and parse_size(need.memory, "memory") <= free.memory
        and parse_size(need.disk, "disk") <= free.disk
    )


def subtract(free: Capacity, taken: Resources | Capacity) -> Capacity:
    """Say what is left of cores, memory and disk; nothing, where more is taken than there is."""
    return Capacity(
        max(free.cpu - taken.cpu, 0.0),
        max(free.memory - parse_size(taken.memory, "memory"), 0),
        max(free.disk - parse_size(taken.disk, "disk"), 0),
    )


def _word(value: AttributeValue | list[AttributeValue] | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
