"""Which tasks in line go to which claims, where tasks name what they need of a worker.

Tasks are offered in the order of the line. One that names nothing goes to the first claim that
wants more. One that names resources goes to the first that has them free; where it would fit once
more is free, no later one that names resources is given before it, so that small ones do not keep
it waiting for ever. A claim from where it could never fit passes it over. A queue gives no more
than its own limits let start, and nothing after a task that needs more slots than are left there.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.model.workers.resources import Capacity, Resources, fits, subtract


class Asked(NamedTuple):
    """How many tasks a claim asks for, what is free where it comes from, and what is there in all.

    Without amounts, everything fits.
    """

    tasks_max: int
    free: Capacity | None = None
    capacity: Capacity | None = None


class Slots(NamedTuple):
    """Of which queue's limits a task takes slots, and how many."""

    queue: str
    number: int = 1


def share_line(
    line: Sequence[Resources | None],
    asked: Sequence[Asked],
    *,
    slots: Sequence[Slots] = (),
    room: Mapping[str, int] | None = None,
) -> list[int | None]:
    """Say of each task in line to which of the claims it goes; None for one that stays.

    `room` is how many slots queues have to give, by their own limits: those that have any. Then
    `slots` says what each task takes.
    """
    slots_left = dict(room or {})
    left = [claim.tasks_max for claim in asked]
    free = [claim.free for claim in asked]
    waiting: set[int] = set()  # claims that want nothing more that names resources
    owners: list[int | None] = []
    for position, need in enumerate(line):
        if not any(left):
            break
        queue, number = slots[position] if slots_left else Slots("")
        if slots_left.get(queue, number) < number:
            slots_left[queue] = 0
            owners.append(None)
            continue
        able = (
            each
            for each, amounts in enumerate(free)
            if left[each] and (need is None or (each not in waiting and _is_room(amounts, need)))
        )
        owner = next(able, None)
        owners.append(owner)
        if owner is not None:
            left[owner] -= 1
            if queue in slots_left:
                slots_left[queue] -= number
            amounts = free[owner]
            if need is not None and amounts is not None:
                free[owner] = subtract(amounts, need)
        elif need is not None:
            waiting |= {n for n, claim in enumerate(asked) if _is_room(claim.capacity, need)}
    return owners + [None] * (len(line) - len(owners))


def _is_room(free: Capacity | None, need: Resources) -> bool:
    return free is None or fits(need, free)
