"""Why a task stands where it stands, and the questions that can be asked along with that."""

from typing import Any

import msgspec

from holdfast.model.workers.near_misses import NearMiss
from holdfast.wire.requests import Request


class ExplainQuery(Request, frozen=True):
    """A question that goes with an explanation: what if each task of the job asked for this much?

    Or if a worker, by its name or id, were not there? Nothing is changed by asking.
    """

    cpu: float | None = None
    memory: str | None = None
    disk: str | None = None
    gpu: int | None = None
    without_worker: str | None = None


class PendingReason(msgspec.Struct, frozen=True):
    """What a task waits for: a code for programs, a message for people, and the numbers in it.

    Of placed work, `nearest` are the workers that come closest to having room, the nearest first.
    """

    code: str
    message: str
    details: dict[str, Any]
    nearest: list[NearMiss] = []


class WhatIfAnswer(msgspec.Struct, frozen=True):
    """What would be if: what was supposed, and what the task would wait for then."""

    supposed: str
    reason: PendingReason


class Explanation(msgspec.Struct, frozen=True):
    """Why a task stands where it stands, one sentence a line; the reason is of pending ones.

    `what_if` answers the question that came with the request.
    """

    task_id: str
    state: str
    lines: list[str]
    reason: PendingReason | None = None
    what_if: WhatIfAnswer | None = None
