"""What would be if: a snapshot as it would look were a job's tasks, or the workers, others."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import Invalid
from holdfast.model.workers.resources import GPU_MAX, parse_size
from holdfast.rules.placement.reason import write_amount
from holdfast.rules.placement.request import CPU_MAX, SIZE_MAX
from holdfast.rules.placement.snapshot import Demand, Shape, WorkerView
from holdfast.rules.submitting.submission import check_text

TEXT_MAX = 256


class WhatIf(NamedTuple):
    """What is supposed: other amounts for each task of one job, and a worker that is not there."""

    cpu: float | None = None
    memory: int | None = None
    disk: int | None = None
    gpu: int | None = None
    without_worker: str | None = None

    @property
    def amounts(self) -> dict[str, float | int]:
        """Give the amounts that are supposed to be others, by their names."""
        given = {"cpu": self.cpu, "memory": self.memory, "disk": self.disk, "gpu": self.gpu}
        return {name: amount for name, amount in given.items() if amount is not None}


def suppose(
    *,
    cpu: float | None,
    memory: str | None,
    disk: str | None,
    gpu: int | None,
    without_worker: str | None,
) -> WhatIf | None:
    """Read what is supposed; None if that is nothing. Amounts are bounded as in a submission."""
    if cpu is not None and not 0 < cpu <= CPU_MAX:
        raise Invalid("cpu", f"is out of range; use more than 0 and up to {CPU_MAX:g}")
    if gpu is not None and not 0 <= gpu <= GPU_MAX:
        raise Invalid("gpu", f"is out of range; use 0 to {GPU_MAX}")
    for field, text in (("memory", memory), ("disk", disk), ("without_worker", without_worker)):
        check_text(field, text or "", TEXT_MAX)
    sizes = {
        field: None if text is None else parse_size(text, field)
        for field, text in (("memory", memory), ("disk", disk))
    }
    for field, size in sizes.items():
        if size is not None and size > SIZE_MAX:
            raise Invalid(field, f"is out of range; use 0 to {SIZE_MAX} bytes")
    if without_worker is not None and not without_worker:
        raise Invalid("without_worker", "is empty; name a worker, `holdfast workers` lists them")
    supposed = WhatIf(cpu, sizes["memory"], sizes["disk"], gpu, without_worker)
    return None if supposed == WhatIf() else supposed


def apply_to_workers(workers: Sequence[WorkerView], supposed: WhatIf) -> list[WorkerView]:
    """Leave out the worker that is not there, by its name or its id; raises if none is so called.

    What runs on it is not put in line again.
    """
    gone = supposed.without_worker
    if gone is None:
        return list(workers)
    left = [each for each in workers if gone not in (each.name, each.worker_id)]
    if len(left) == len(workers):
        raise unknown_worker(gone)
    return left


def apply_to_demands(demands: Sequence[Demand], job_id: int, supposed: WhatIf) -> list[Demand]:
    """Change what each task of one job asks for; other jobs ask for what they ask for."""
    return [
        each._replace(shape=_change(each.shape, supposed)) if each.job_id == job_id else each
        for each in demands
    ]


def describe(shape: Shape | None, supposed: WhatIf) -> str:
    """Put in words what is supposed: with 8 cpu instead of 16, without worker x."""
    parts = []
    for name, amount in supposed.amounts.items():
        text = _write(name, amount)
        if shape is not None:
            text += f" instead of {_write(name, getattr(shape, name), bare=True)}"
        parts.append(f"with {text}")
    if supposed.without_worker is not None:
        parts.append(f"without worker {supposed.without_worker}")
    return ", ".join(parts)


def unknown_worker(name: str) -> Invalid:
    """Say that there is no worker of a name."""
    return Invalid("without_worker", f"no worker {name} is there; `holdfast workers` lists them")


def _change(shape: Shape, supposed: WhatIf) -> Shape:
    changed = shape._replace(**supposed.amounts)  # type: ignore[arg-type]  # names of its fields
    return changed if changed.gpu else changed._replace(gpu_model=None)


def _write(name: str, amount: float, *, bare: bool = False) -> str:
    return write_amount(name, round(amount * 1000) if name == "cpu" else int(amount), bare=bare)
