"""The room that workers have left in one pass, as arrays: what fits where, and taking it.

Rows are kinds of amounts, columns are workers in the order in which they are filled: those with
fewer gpus first, so that other work stays off them, then by name and id. Amounts are integers
(cpu in thousandths), so nothing is lost by adding up. `unstarted` is a resource like the others:
each worker has a few slots for tasks that have not started.

A window over the workers is searched first, then ever larger ones. The search goes through a copy
of the columns that leaves out, from time to time, the workers that no task of this pass can use.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.model.workers.resources import AttributeValue, Capacity, Constraint
from holdfast.rules.placement.constraints import matches
from holdfast.rules.placement.snapshot import Shape, WorkerView

CPU, MEMORY, DISK, GPU, PORTS, SLOTS = range(6)
ROWS = 6
NOBODY = -1

_WINDOW = 256
_AMOUNT_MAX = 1 << 60
_MASKS_MAX = 1_000
_CPU_ERROR = 1e-6  # of a thousandth: what adding up floats may have cost

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
_ONE: Integers = np.ones(1, dtype=np.int64)
Taken = list[tuple[int, int]]  # (column of the worker, tasks)


class Need(NamedTuple):
    """What one task of a shape takes: (row, amount) without zeros, all rows, and who may give.

    A gang is placed within one of the `groups` of workers, which are numbered.
    """

    amounts: tuple[tuple[int, int], ...]
    column: Integers
    mask: Booleans
    anyone: bool
    groups: Integers
    one_per_host: bool


class Room:
    """The workers of one pass; `take_*` books what it returns."""

    def __init__(
        self, workers: Iterable[WorkerView], shapes: Iterable[Shape], unstarted_max: int
    ) -> None:
        self.workers: Sequence[WorkerView] = sorted(
            workers, key=lambda each: (each.capacity.gpu, each.name, each.worker_id)
        )
        self.total, used = _amounts_of(self.workers, unstarted_max)
        self.free = self.total - used
        self.open = np.array([each.accepts for each in self.workers], dtype=np.bool_)
        self.kept_for = np.full(len(self.workers), NOBODY, dtype=np.int64)
        self._host, self._host_ports = _pool_ports(self.workers)
        self._shares_hosts = len(self._host_ports) < len(self.workers)
        self.free[PORTS] = self._host_ports[self._host]
        self._ungrouped = np.zeros(len(self.workers), dtype=np.int64)
        self._named: dict[str, list[int]] | None = None
        self._columns: dict[str, tuple[Integers, list[AttributeValue]]] = {}
        self._packed: dict[str | None, Integers] = {}
        self._masks: dict[Hashable, Booleans] = {}
        self._amounts = {shape: _column_of(shape) for shape in set(shapes)}
        self._least = _least_of(self._amounts.values())
        self._refresh(np.flatnonzero(self.open))

    def need(self, shape: Shape) -> Need:
        """Work out what a shape takes and which workers fulfil its constraints."""
        column = self._amounts[shape]
        amounts = tuple((row, column[row]) for row in range(SLOTS) if column[row] > 0)
        anyone = not shape.constraints and shape.gpu_model is None and shape.group_by is None
        return Need(
            amounts,
            np.array(column, dtype=np.int64),
            self._mask(shape),
            anyone,
            self._groups(shape),
            one_per_host=shape.hosts == "spread",
        )

    def take_first(self, need: Need, count: int, avoid: str | None = None) -> Taken:
        """Take room for up to `count` tasks on the first workers that have it."""
        avoided = self._columns_named(avoid)
        taken = self._search(need, count, avoided)
        count -= sum(tasks for _, tasks in taken)
        if count > 0 and avoided.size:
            avoided = avoided[self.open[avoided] & need.mask[avoided]]
            tasks = _first(self.fits(need, avoided), count)
            taken += self._book(need, avoided, tasks)
        return taken

    def take_gang(self, need: Need, members: int, *, avoid: str | None) -> Taken:
        """Take room for all members, within one group of workers, or for none."""
        able = self.open & need.mask
        avoided = self._columns_named(avoid)
        avoided = avoided[able[avoided]]
        able[avoided] = False
        others = np.flatnonzero(able)
        for columns in (others, np.concatenate((others, avoided))):
            groups = need.groups[columns]
            fits = self.fits(need, columns, groups)
            sums = sum_by_group(fits, groups)
            if not (sums >= members).any():
                continue
            chosen = int(np.where(sums >= members, sums, np.iinfo(np.int64).max).argmin())
            ours = groups == chosen
            return self._book(need, columns[ours], _first(fits[ours], members))
        return []

    def keep(self, columns: Integers, job_id: int) -> None:
        """Keep workers for one job: nobody else gets room there in this pass."""
        self.kept_for[columns] = job_id
        self.open[columns] = False
        self._refresh(self._index[self.open[self._index]])

    def fits(
        self, need: Need, columns: Integers, groups: Integers | None = None, *, slots: bool = True
    ) -> Integers:
        """Count what fits on each of these workers, filled in this order, slots heeded or not."""
        free = self.free
        if not slots:
            free = free.copy()
            free[SLOTS] = self.total[SLOTS]
        fits = count_fits(free, need, columns)
        ports = int(need.column[PORTS])
        if ports and self._shares_hosts:
            keys = self._host[columns]
            if groups is not None:
                keys = keys + (groups + 1) * len(self._host_ports)
            fits = _share(fits, keys, self.free[PORTS, columns] // ports)
        return self._spread(fits, need, columns)

    def fits_idle(self, need: Need, columns: Integers) -> Integers:
        """Count what would fit on each of these workers, were all idle."""
        return self._spread(count_fits(self.total, need, columns), need, columns)

    def _spread(self, fits: Integers, need: Need, columns: Integers) -> Integers:
        """Leave one task on the first worker of each host, and of each group, that has room."""
        if not need.one_per_host:
            return fits
        keys = self._host[columns] + (need.groups[columns] + 1) * len(self._host_ports)
        return _share(np.minimum(fits, 1), keys, np.ones_like(fits))

    def group(self, attribute: str | None) -> Integers:
        """Number each worker's value of an attribute; -1 where it has none, 0 for no attribute."""
        if attribute is None:
            return self._ungrouped
        return self._column(attribute)[0]

    def _groups(self, shape: Shape) -> Integers:
        """Number the groups of which a gang needs one: by its attribute, or by host within it."""
        if shape.hosts != "pack":
            return self.group(shape.group_by)
        if (packed := self._packed.get(shape.group_by)) is None:
            groups = self.group(shape.group_by)
            hosts = groups * len(self._host_ports) + self._host
            numbers = np.unique(hosts, return_index=True, return_inverse=True)
            # In the order of first appearance, as attributes are numbered.
            order = np.argsort(np.argsort(numbers[1]))
            packed = self._packed[shape.group_by] = np.where(groups < 0, -1, order[numbers[2]])
        return packed

    def _search(self, need: Need, count: int, avoided: Integers) -> Taken:
        taken: Taken = []
        if self._touched > max(_WINDOW, len(self._index) // 8):
            self._refresh(self._index)
        if any(amount > self._most[row] for row, amount in need.amounts):
            return taken
        # Workers are in order of their gpus: those with too few in all come first.
        gpu = need.column[GPU]
        start, size = int(self._gpus.searchsorted(gpu)) if gpu else 0, _WINDOW
        while count > 0 and start < len(self._index):
            window = slice(start, start + size)
            able = self._free[SLOTS, window] > 0
            for row, amount in need.amounts:
                able &= self._free[row, window] >= amount
            if not need.anyone:
                able &= need.mask[self._index[window]]
            first = int(able.argmax())
            if able[first]:
                if count == 1 and not avoided.size:
                    return self._book_one(need, start + first)
                columns = self._index[window][able]
                columns = columns[~np.isin(columns, avoided)] if avoided.size else columns
                tasks = _first(self.fits(need, columns), count)
                taken += self._book(need, columns, tasks)
                count -= int(tasks.sum())
            start, size = start + size, size * 2
        return taken

    def _book(self, need: Need, columns: Integers, tasks: Integers) -> Taken:
        columns = columns[: len(tasks)][tasks > 0]
        tasks = tasks[tasks > 0]
        self.free[:, columns] -= need.column[:, None] * tasks
        if need.column[PORTS] and self._shares_hosts:
            np.subtract.at(self._host_ports, self._host[columns], tasks * need.column[PORTS])
            self.free[PORTS] = self._host_ports[self._host]
            self._free[PORTS] = self.free[PORTS, self._index]
        # A worker that has been left out of the index had no room for anyone.
        self._free[:, self._index.searchsorted(columns)] = self.free[:, columns]
        self._touched += len(columns)
        return list(zip(columns.tolist(), tasks.tolist(), strict=True))

    def _book_one(self, need: Need, position: int) -> Taken:
        """Book one task at a position in the index: the same, quicker, for jobs of one task."""
        if need.column[PORTS] and self._shares_hosts:
            return self._book(need, self._index[position : position + 1], _ONE)
        column = int(self._index[position])
        self.free[:, column] -= need.column
        self._free[:, position] -= need.column
        self._touched += 1
        return [(column, 1)]

    def _refresh(self, index: Integers) -> None:
        """Copy the columns to be searched, leaving out those where nothing fits any more."""
        useful = (self.free[:, index] >= self._least[:, None]).all(axis=0)
        self._index: Integers = index[useful]
        self._free: Integers = self.free[:, self._index]
        self._gpus: Integers = self.total[GPU, self._index]
        self._most: list[int] = self._free.max(axis=1, initial=0).tolist()
        self._touched = 0

    def mask_of_constraint(self, text: str) -> Booleans:
        """Tell which workers fulfil a constraint, given as JSON; asked once per distinct value."""
        if (mask := self._masks.get(text)) is None:
            constraint = msgspec.json.decode(text, type=Constraint)
            name = constraint.attribute
            codes, values = self._column(name)
            answers = [matches(constraint, {name: value}) for value in values]
            answers.append(matches(constraint, {}))  # the last one, for the code -1
            mask = self._remember(text, np.array(answers, dtype=np.bool_)[codes])
        return mask

    def mask_of_model(self, model: str | None) -> Booleans:
        """Tell which workers have gpus of a model; all, if none is asked for."""
        if (mask := self._masks.get((model,))) is None:
            models = [model is None or each.capacity.gpu_model == model for each in self.workers]
            mask = self._remember((model,), np.array(models, dtype=np.bool_))
        return mask

    def _mask(self, shape: Shape) -> Booleans:
        key = (shape.constraints, shape.gpu_model, shape.group_by)
        if (mask := self._masks.get(key)) is None:
            mask = self.mask_of_model(shape.gpu_model) & (self.group(shape.group_by) >= 0)
            for text in shape.constraints:
                mask &= self.mask_of_constraint(text)
            self._remember(key, mask)
        return mask

    def _remember(self, key: Hashable, mask: Booleans) -> Booleans:
        if len(self._masks) >= _MASKS_MAX:
            self._masks.clear()
        self._masks[key] = mask
        return mask

    def _column(self, attribute: str) -> tuple[Integers, list[AttributeValue]]:
        """Number an attribute's values by first appearance; 7 and 7.0 are one, 7 and "7" two."""
        if (known := self._columns.get(attribute)) is None:
            found = [each.attributes.get(attribute) for each in self.workers]
            keys = [(value.__class__ is bool, value) for value in found]
            values = [value for _, value in dict.fromkeys(keys) if value is not None]
            numbers: dict[object, int] = {
                (value.__class__ is bool, value): n for n, value in enumerate(values)
            }
            codes = [numbers.get(key, -1) for key in keys]
            known = np.array(codes, dtype=np.int64), values
            self._columns[attribute] = known
        return known

    def _columns_named(self, name: str | None) -> Integers:
        if name is None:
            return np.empty(0, dtype=np.int64)
        if self._named is None:
            self._named = {}
            for column, each in enumerate(self.workers):
                self._named.setdefault(each.name, []).append(column)
        return np.array(self._named.get(name, []), dtype=np.int64)


def count_fits(amounts: Integers, need: Need, columns: Integers) -> Integers:
    """Count how many tasks each worker's amounts allow; each task takes a slot, too."""
    fits: Integers = amounts[SLOTS, columns]
    for row, amount in need.amounts:
        np.minimum(fits, amounts[row, columns] // amount, out=fits)
    return np.maximum(fits, 0, out=fits)


def sum_by_group(fits: Integers, groups: Integers) -> Integers:
    """Add up what fits on the workers of each group."""
    sums = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, groups[groups >= 0], fits[groups >= 0])
    return sums


def _first(fits: Integers, count: int) -> Integers:
    """Spread tasks over workers in order, each as full as can be."""
    before = np.cumsum(fits) - fits
    tasks: Integers = np.minimum(fits, count - before)
    return tasks[: int(np.searchsorted(before, count))]


def _share(fits: Integers, keys: Integers, limits: Integers) -> Integers:
    """Cut down what fits where several workers, filled in order, share one host's ports."""
    order = np.argsort(keys, kind="stable")
    counts = fits[order]
    before = np.cumsum(counts) - counts
    _, starts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
    before -= np.repeat(before[starts], sizes)
    shared = np.empty_like(fits)
    shared[order] = np.clip(limits[order] - before, 0, counts)
    return shared


def _amounts_of(workers: Sequence[WorkerView], unstarted_max: int) -> tuple[Integers, Integers]:
    """Write down what workers have in all and what of it is used; ports come by host."""
    total = np.full((ROWS, len(workers)), unstarted_max, dtype=np.int64)
    total[:PORTS] = _rows([each.capacity for each in workers], np.floor, _CPU_ERROR)
    total[PORTS] = _AMOUNT_MAX
    used = np.zeros((ROWS, len(workers)), dtype=np.int64)
    used[:PORTS] = _rows([each.used for each in workers], np.ceil, -_CPU_ERROR)
    used[SLOTS] = [each.unstarted for each in workers]
    return total, used


def _rows(amounts: list[Capacity], rounded: np.ufunc, error: float) -> Integers:
    rows = np.empty((PORTS, len(amounts)), dtype=np.int64)
    cpu = rounded(np.array([each.cpu for each in amounts]) * 1000 + error)
    rows[CPU] = np.minimum(cpu, _AMOUNT_MAX)
    rows[MEMORY] = _integers([each.memory for each in amounts])
    rows[DISK] = _integers([each.disk for each in amounts])
    rows[GPU] = _integers([each.gpu for each in amounts])
    return rows


def _integers(amounts: list[int]) -> Integers:
    """Turn amounts into an array; one that no worker can have must not stop the others."""
    if max(amounts, default=0) > _AMOUNT_MAX:
        amounts = [min(amount, _AMOUNT_MAX) for amount in amounts]
    return np.array(amounts, dtype=np.int64)


def _column_of(shape: Shape) -> tuple[int, ...]:
    cpu = math.ceil(shape.cpu * 1000 - _CPU_ERROR)
    amounts = (cpu, shape.memory, shape.disk, shape.gpu, shape.ports, 1)
    return tuple(min(amount, _AMOUNT_MAX) for amount in amounts)


def _least_of(columns: Iterable[tuple[int, ...]]) -> Integers:
    """Find the least that any task needs of each kind; what some do without bars nobody."""
    least = np.array(list(columns), dtype=np.int64).reshape(-1, ROWS)
    least = least.min(axis=0, initial=_AMOUNT_MAX)
    return np.where(least > 0, least, np.iinfo(np.int64).min)


def _pool_ports(workers: Sequence[WorkerView]) -> tuple[Integers, Integers]:
    """Number the hosts; workers of one host draw on the same ports."""
    numbers = {host: n for n, host in enumerate(dict.fromkeys(each.host for each in workers))}
    hosts = np.array([numbers[each.host] for each in workers], dtype=np.int64)
    ports = np.full(len(numbers), _AMOUNT_MAX, dtype=np.int64)
    np.minimum.at(ports, hosts, _integers([each.ports_free for each in workers]))
    return hosts, ports
