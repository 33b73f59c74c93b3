"""Which tasks in line go to which claims, where tasks name what they need of a worker.

Tasks are offered in the order of the line. One that names nothing goes to the first claim that
wants more. One that names resources goes to the first that has them free; where it would fit once
more is free, no later one that names resources is given before it, so that small ones do not keep
it waiting for ever. A claim from where it could never fit passes it over.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.model.resources import Capacity, Resources, fits, subtract


class Asked(NamedTuple):
    """How many tasks a claim asks for, what is free where it comes from, and what is there in all.

    Without amounts, everything fits.
    """

    tasks_max: int
    free: Capacity | None = None
    capacity: Capacity | None = None


def share_line(line: Sequence[Resources | None], asked: Sequence[Asked]) -> list[int | None]:
    """Say of each task in line to which of the claims it goes; None for one that stays."""
    left = [claim.tasks_max for claim in asked]
    free = [claim.free for claim in asked]
    waiting: set[int] = set()  # claims that want nothing more that names resources
    owners: list[int | None] = []
    for need in line:
        if not any(left):
            break
        able = (
            number
            for number, room in enumerate(free)
            if left[number] and (need is None or (number not in waiting and _is_room(room, need)))
        )
        owner = next(able, None)
        owners.append(owner)
        if owner is not None:
            left[owner] -= 1
            room = free[owner]
            if need is not None and room is not None:
                free[owner] = subtract(room, need)
        elif need is not None:
            waiting |= {n for n, claim in enumerate(asked) if _is_room(claim.capacity, need)}
    return owners + [None] * (len(line) - len(owners))


def _is_room(free: Capacity | None, need: Resources) -> bool:
    return free is None or fits(need, free)
