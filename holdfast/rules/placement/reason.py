"""Why tasks wait: for each worker the first thing that stands in the way, counted and put in words.

Asked in the state that the scheduler's pass has reached when it is the demand's turn. A worker is
asked, in this order: does it accept work, does it fulfil the constraints, has it the resources, is
it kept for others, has it slots for tasks that have not started.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from holdfast.model.workers.near_misses import NearMiss
from holdfast.model.workers.resources import Constraint
from holdfast.rules.placement.room import (
    CPU,
    DISK,
    GPU,
    MEMORY,
    NOBODY,
    PORTS,
    SLOTS,
    Booleans,
    Integers,
    Need,
    Room,
    sum_by_group,
)
from holdfast.rules.placement.snapshot import Demand, Shape, missing_members

# The scarce first: a full machine without gpus lacks gpus, whatever else is used up.
RESOURCES = ((GPU, "gpu"), (CPU, "cpu"), (MEMORY, "memory"), (DISK, "disk"), (PORTS, "ports"))
_UNITS = ((10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_JOBS_NAMED_MAX = 3


class Reason(msgspec.Struct, frozen=True):
    """Why tasks wait: a code for programs, a message for people, and the numbers in it.

    `nearest` are the workers that come closest to having room.
    """

    code: str
    message: str
    details: dict[str, Any]
    nearest: list[NearMiss] = []


class _Obstacles(NamedTuple):
    """How many workers fail by what, in numbers and in words; `left` marks those not struck off."""

    kinds: dict[str, list[dict[str, Any]]]
    texts: list[tuple[int, str]]
    left: Booleans

    def strike(self, fails: Booleans) -> Booleans:
        """Strike off the workers that fail; returns those that had not failed before."""
        struck = self.left & fails
        np.logical_and(self.left, ~fails, out=self.left)
        return struck

    def add(self, kind: str, text: str, numbers: dict[str, Any]) -> None:
        """Write down one obstacle."""
        self.kinds.setdefault(kind, []).append(numbers)
        self.texts.append((numbers["workers"], text))

    def summary(self) -> str:
        """List what stands in the way, the most frequent first."""
        texts = list(self.texts)
        if count := int(self.left.sum()):
            texts.append((count, f"{count} {_verb(count, 'have')} room for a member"))
        ordered = sorted(texts, key=lambda each: -each[0])
        return f"{_some(len(self.left), 'worker')}: {', '.join(text for _, text in ordered)}"


def give_reason(room: Room, demand: Demand, *, fitting: int, ahead: int, kept: int) -> Reason:
    """Say why the tasks of a demand that do not fit wait; `kept` workers will be kept for them."""
    details: dict[str, Any] = {"workers": len(room.workers), "waiting": demand.count - fitting}
    if not room.workers:
        return Reason("no_workers", "no worker has registered for placed work", details)
    if fitting >= demand.count > 0:
        return Reason("fits", "fits now, next pass", details | {"fitting": fitting})
    need = room.need(demand.shape)
    obstacles = _find_obstacles(room, need, demand.shape)
    details |= obstacles.kinds | {"fitting": fitting, "ahead": ahead, "kept_for_it": kept}
    never = _never_fits(room, need, demand)
    missing = missing_members(demand)
    if never is not None:
        code, message = "never_fits", f"{obstacles.summary()}; could never fit: {never}"
    elif missing:
        details["missing"] = missing
        code, message = "gang_missing", f"waits for {_some(missing, 'member')} of its gang"
    elif demand.gang is not None and need.mask.any():
        code, message = _gang_reason(room, need, demand, obstacles=obstacles, details=details)
    else:
        code, message = _task_reason(obstacles)
    if fitting:
        message = f"{fitting} of {demand.count} fit now, next pass; for the others, {message}"
    if ahead and code in ("lacks_resources", "gang_waits", "build_slots"):
        message += f" (after {_some(ahead, 'task')} ahead of it)"
    if kept:
        message += f"; {_some(kept, 'worker')} {_verb(kept, 'are')} kept for it until it fits"
    return Reason(code, message, details)


def _task_reason(obstacles: _Obstacles) -> tuple[str, str]:
    """Name the obstacle that is nearest to being gone."""
    kinds = obstacles.kinds
    if "build_slots" in kinds:
        return "build_slots", f"waits for build slots; {obstacles.summary()}"
    if "kept" in kinds:
        return "reserved", f"behind others: {_kept_text(*kinds['kept'])}; {obstacles.summary()}"
    if "lacks" in kinds:
        return "lacks_resources", obstacles.summary()
    if "fails" in kinds:
        return "fails_constraints", obstacles.summary()
    return "not_accepting", obstacles.summary()


def _gang_reason(
    room: Room, need: Need, demand: Demand, *, obstacles: _Obstacles, details: dict[str, Any]
) -> tuple[str, str]:
    """Say how many members fit in the best place, and whether slots or others stand in the way."""
    group = _name_group(demand.shape)
    columns = np.flatnonzero(need.mask & room.open)
    most = _most_in_group(room, need, columns)
    details |= {"members": demand.count, "members_fitting": most}
    if group is None:
        message = f"{most} of {demand.count} members of the gang fit"
    else:
        message = f"largest {group} has {most} of {demand.count}"
    if need.one_per_host:
        message += ", each on a host of its own"
    message += f"; {obstacles.summary()}"
    if _most_in_group(room, need, columns, slots=False) >= demand.count:
        return "build_slots", f"waits for build slots: {message}"
    accepts = np.array([each.accepts for each in room.workers], dtype=np.bool_)
    columns = np.flatnonzero(need.mask & accepts)
    if _most_in_group(room, need, columns) >= demand.count:
        return "reserved", f"behind others: {_kept_text(*obstacles.kinds['kept'])}; {message}"
    return "gang_waits", message


def _name_group(shape: Shape) -> str | None:
    """Name that of which a gang needs one: a host, a rack; None if any workers will do."""
    if shape.hosts != "pack":
        return shape.group_by
    return "host" if shape.group_by is None else f"host of a {shape.group_by}"


def _most_in_group(room: Room, need: Need, columns: Integers, *, slots: bool = True) -> int:
    """Count the members that fit on the workers of the best group, slots heeded or not."""
    groups = need.groups[columns]
    fits = room.fits(need, columns, groups, slots=slots)
    return int(sum_by_group(fits, groups).max(initial=0))


def explain_impossible(room: Room, demand: Demand) -> str | None:
    """Say why a demand could not be placed, were all workers idle; None if it could."""
    if not room.workers:
        return "no worker has registered for placed work"
    need = room.need(demand.shape)
    if need.mask.any():
        return _never_fits(room, need, demand)
    unmet = [text for text, mask in list_conditions(room, demand.shape) if not mask.any()]
    return (
        f"no worker has {' or '.join(unmet)}" if unmet else "no worker has all that is asked of one"
    )


def _never_fits(room: Room, need: Need, demand: Demand) -> str | None:
    """Compare with all that workers have, were they idle; None if that is enough."""
    columns = np.flatnonzero(need.mask)
    if not columns.size:
        return None
    most = int(sum_by_group(room.fits_idle(need, columns), need.groups[columns]).max())
    members = max(demand.count, demand.gang or 0)
    if demand.gang is not None and 0 < most < members:
        group = _name_group(demand.shape)
        who = "all workers have" if group is None else f"the largest {group} has"
        alone = ", each on a host of its own" if need.one_per_host else ""
        return f"{who} room for {most} of {members}{alone}"
    if most > 0:
        return None
    amounts = dict(need.amounts)
    largest = {
        name: int(room.total[row, columns].max())
        for row, name in RESOURCES
        if row in amounts and room.total[row, columns].max() < amounts[row]
    }
    if not largest:
        wanted = [write_amount(n, amounts[r]) for r, n in RESOURCES if r in amounts and r != PORTS]
        return f"none has {', '.join(wanted)} together"
    return f"the largest has {', '.join(write_amount(*each) for each in largest.items())}"


def _find_obstacles(room: Room, need: Need, shape: Shape) -> _Obstacles:
    """Ask each worker for the first thing that fails."""
    found = _Obstacles({}, [], np.ones(len(room.workers), dtype=np.bool_))
    _ask_acceptance(room, found)
    for condition, mask in list_conditions(room, shape):
        if count := found.strike(~mask).sum():
            text = f"{count} {_verb(count, 'fail')} {condition}"
            found.add("fails", text, {"workers": int(count), "constraint": condition})
    amounts = dict(need.amounts)
    for row, name in RESOURCES:
        if row in amounts:
            _ask_amount(room, found, row=row, name=name, amount=amounts[row])
    struck = found.strike(room.kept_for != NOBODY)
    if struck.any():
        kept = {"workers": int(struck.sum()), "jobs": np.unique(room.kept_for[struck]).tolist()}
        found.add("kept", _kept_text(kept), kept)
    if count := int(found.strike(room.free[SLOTS] < 1).sum()):
        slots = int(room.total[SLOTS, 0])
        text = f"{count} {_verb(count, 'have')} all {_some(slots, 'build slot')} taken"
        found.add("build_slots", text, {"workers": count, "slots": slots})
    return found


def _ask_acceptance(room: Room, found: _Obstacles) -> None:
    causes = [None if each.accepts else each.why_not or "not accepting" for each in room.workers]
    for cause in sorted({cause for cause in causes if cause is not None}):
        struck = found.strike(np.array([each == cause for each in causes], dtype=np.bool_))
        count = int(struck.sum())
        text = f"{count} {_verb(count, 'take')} no work ({cause})"
        found.add("not_accepting", text, {"workers": count, "why": cause})


def _ask_amount(room: Room, found: _Obstacles, *, row: int, name: str, amount: int) -> None:
    struck = found.strike(room.free[row] < amount)
    if not struck.any():
        return
    count, most = int(struck.sum()), max(0, int(room.free[row, struck].max()))
    wanted, free = write_amount(name, amount, bare=True), write_amount(name, most, bare=True)
    text = f"{count} {_verb(count, 'lack')} {name} (need {wanted}, most free {free})"
    numbers = {"need": number_of(row, amount), "most_free": number_of(row, most)}
    found.add("lacks", text, {"workers": count, "resource": name} | numbers)


def list_conditions(room: Room, shape: Shape) -> list[tuple[str, Booleans]]:
    """List what a worker must be, as texts, and which workers are so."""
    found = []
    if shape.gpu_model is not None:
        found.append((f"gpu_model={shape.gpu_model}", room.mask_of_model(shape.gpu_model)))
    for text in shape.constraints:
        constraint = msgspec.json.decode(text, type=Constraint)
        found.append((str(constraint), room.mask_of_constraint(text)))
    if shape.group_by is not None:
        found.append((f"{shape.group_by} exists", room.group(shape.group_by) >= 0))
    return found


def _kept_text(kept: dict[str, Any]) -> str:
    named = [str(job) for job in kept["jobs"][:_JOBS_NAMED_MAX]]
    more = len(kept["jobs"]) - len(named)
    jobs = "job " if len(kept["jobs"]) == 1 else "jobs "
    jobs += ", ".join(named) + (f" and {more} more" if more else "")
    return f"{_some(kept['workers'], 'worker')} {_verb(kept['workers'], 'are')} kept for {jobs}"


def _some(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _verb(count: int, word: str) -> str:
    if count != 1:
        return word
    return {"are": "is", "have": "has"}.get(word, f"{word}s")


def number_of(row: int, amount: int) -> int | float:
    """Give an amount as it is asked for: cpu in units."""
    return amount / 1000 if row == CPU else amount


def write_amount(name: str, amount: int, *, bare: bool = False) -> str:
    """Write an amount for people: 1.5 cpu, 4GB memory; `bare` without its name."""
    text = str(amount)
    if name == "cpu":
        text = f"{amount / 1000:g}"
    elif name in ("memory", "disk"):
        unit, suffix = next((each for each in _UNITS if amount >= each[0]), (1, "B"))
        text = f"{amount / unit:.4g}{suffix}"
    return text if bare else f"{text} {name}"
