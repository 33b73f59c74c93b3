"""What a job has to do with others: those it waits for, and the datasets it writes."""

from typing import Literal

import msgspec

Condition = Literal["succeeded", "failed", "ended"]
OutputMode = Literal["append", "replace"]
Declared = Literal["new", "newest"]


class Dependency(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job to wait for, and how it has to end; `failed` means any other end than SUCCEEDED.

    Within a graph that is submitted in one call, `job` may be the local name of another job.
    """

    job: str
    condition: Condition = "succeeded"


class ResultPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where among the arguments of a function the result of another job goes.

    `path` leads there: ["args", 0], ["kwargs", "table"], or deeper: ["args", 0, 2].
    """

    path: list[str | int]
    job: str


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A dataset that a job writes, and the version that its tasks fill.

    `version` is a number, "new" for one that is opened with the job, or left out for the newest
    open one; what is stored is always the number.
    """

    dataset: str
    version: int | Literal["new"] | None = None
    mode: OutputMode = "append"


def holds(condition: Condition, *, succeeded: bool) -> bool:
    """Tell whether a job that has ended so is what a dependent waited for."""
    return condition == "ended" or (condition == "succeeded") == succeeded
