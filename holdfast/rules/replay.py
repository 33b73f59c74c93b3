"""How dead letters are replayed: which go first, and when each of them may start."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import Invalid
from holdfast.model.work.ids import TaskId
from holdfast.rules.submitting.submission import START_RATE_MAX, START_RATE_MIN

# As long as a job may wait for its start.
DELAY_MAX = 366 * 86_400.0


class Letters(NamedTuple):
    """Dead letters of one job, in the order of their ids; replicas run again as a whole."""

    job_id: int
    task_ids: tuple[TaskId, ...]
    can_split: bool


class Part(NamedTuple):
    """Dead letters that one new job runs again; the rest starts when all canaries succeeded.

    At a pace, its first task starts after a delay, and the others at a rate, tasks per second.
    """

    job_id: int
    task_ids: tuple[TaskId, ...]
    is_canary: bool = False
    start_delay: float | None = None
    start_rate: float | None = None


def keep_pace(parts: Sequence[Part], letters: Sequence[Letters], rate: float) -> list[Part]:
    """Let dead letters start one after the other, those after the canaries from their end on."""
    if not START_RATE_MIN <= rate <= START_RATE_MAX:
        problem = f"is {rate:g} tasks per second; use one per day to {START_RATE_MAX:g}"
        raise Invalid("rate", problem)
    can_split = {each.job_id: each.can_split for each in letters}
    before = {True: 0, False: 0}
    paced = []
    for part in parts:
        delay = before[part.is_canary] / rate
        if delay > DELAY_MAX:
            raise Invalid("rate", f"would take longer than {DELAY_MAX / 86_400:g} days; use more")
        goes_on = can_split[part.job_id] and len(part.task_ids) > 1
        paced.append(part._replace(start_delay=delay, start_rate=rate if goes_on else None))
        before[part.is_canary] += len(part.task_ids)
    return paced


def arrange(letters: Sequence[Letters], *, canary: int | None = None, links_max: int) -> list[Part]:
    """Divide dead letters among new jobs: the first `canary` of them before the others.

    Of links between jobs there are at most `links_max`: each job of the rest waits for each canary.
    """
    if canary is None:
        return [Part(each.job_id, each.task_ids) for each in letters]
    total = sum(len(each.task_ids) for each in letters)
    if not 1 <= canary < total:
        raise Invalid(
            "canary",
            f"is {canary} of {total}; use 1 to {total - 1}, so that there is a rest"
            if total > 1
            else "needs a rest to wait for it; there is one dead letter alone",
        )
    first: list[Part] = []
    rest: list[Part] = []
    left = canary
    for each in letters:
        count = len(each.task_ids) if left and not each.can_split else left
        for part, ids in ((first, each.task_ids[:count]), (rest, each.task_ids[count:])):
            if ids:
                part.append(Part(each.job_id, ids, is_canary=part is first))
        left = max(0, left - len(each.task_ids))
    if not rest:
        raise Invalid(
            "canary", "takes all of them, because replicas run again as a whole; leave it out"
        )
    if len(first) * len(rest) > links_max:
        raise Invalid(
            "canary",
            f"makes each of {len(rest)} jobs wait for {len(first)} others, more than {links_max} "
            "links; use a smaller one, or replay fewer at once",
        )
    return first + rest
