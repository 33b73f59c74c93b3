"""Plant one bug after the other, run what must see it, and judge."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from mutants.checkout import (
    RUN_SECONDS_MAX,
    Verdicts,
    changed,
    copied,
    end_runs,
    is_of,
    run_tests,
)
from mutants.mutation import Mutation, mutate

RUNS_AT_ONCE = max(2, os.cpu_count() or 2)
# All tests that are looked at, once, on the code as it is.
SOUND_SECONDS_MAX = 1800.0
SOUND_TESTS_AT_ONCE_MIN = 10  # fewer are quicker one after the other


@dataclass(frozen=True, slots=True)
class Result:
    """How one mutation went: which tests turned red, or what was wrong."""

    mutation: Mutation
    failed: tuple[str, ...]
    seconds: float
    problem: str = ""

    @property
    def red(self) -> list[str]:
        """Name the tests that turned red, each once, whatever its parameters."""
        names = (test.partition("[")[0].rpartition("::")[2] for test in self.failed)
        return list(dict.fromkeys(names))

    @property
    def verdict(self) -> str:
        """Say it in a word or two."""
        if self.problem:
            return f"UNEXPECTED: {self.problem}"
        return "survives, as listed" if self.mutation.survives else "caught"


def judge(mutation: Mutation, verdicts: Verdicts) -> str:
    """Say what is not as expected; empty if all is."""
    if verdicts.problem:
        return verdicts.problem
    green = [
        entry for entry in mutation.red if not any(is_of(test, entry) for test in verdicts.failed)
    ]
    if mutation.survives:
        return "" if green else "it is caught now; take the reason away why it survives"
    return f"it survives {', '.join(green)}" if green else ""


def list_tests(mutations: Sequence[Mutation]) -> list[str]:
    """List the tests that have to be green before anything is planted."""
    return sorted({entry for mutation in mutations for entry in mutation.red})


def find_unsound(mutations: Sequence[Mutation], verdicts: Verdicts) -> str:
    """Say why the tests could not tell a bug from what was there before; empty if they can."""
    if verdicts.problem:
        return verdicts.problem
    if verdicts.failed:
        return f"red without any mutation: {', '.join(verdicts.failed)}"
    silent = [
        entry
        for entry in list_tests(mutations)
        if not any(is_of(test, entry) for test in verdicts.passed)
    ]
    return f"nothing ran of {', '.join(silent)}" if silent else ""


def check_sound(root: Path, mutations: Sequence[Mutation]) -> str:
    """Run all tests that are looked at on the code as it is; returns what is wrong."""
    tests = list_tests(mutations)
    at_once = RUNS_AT_ONCE if len(tests) >= SOUND_TESTS_AT_ONCE_MIN else 0
    with copied(root) as checkout:
        verdicts = run_tests(checkout, tests, at_once=at_once, seconds_max=SOUND_SECONDS_MAX)
    return find_unsound(mutations, verdicts)


def try_all(
    root: Path,
    mutations: Sequence[Mutation],
    *,
    seconds_max: float,
    cluster: Path | None = None,
) -> Iterator[Result]:
    """Yield a result for each, in order; what has not begun when the time is over does not."""
    until = time.monotonic() + seconds_max
    with ExitStack() as stack:
        free: SimpleQueue[Path] = SimpleQueue()
        for _ in range(min(RUNS_AT_ONCE, len(mutations))):
            free.put(stack.enter_context(copied(root)))
        pool = stack.enter_context(ThreadPoolExecutor(RUNS_AT_ONCE))
        # Whoever leaves early, by Ctrl-C say, waits for nothing.
        stack.callback(end_runs)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)

        def attempt(mutation: Mutation) -> Result:
            left = until - time.monotonic()
            if left <= 0:
                return Result(mutation, (), 0.0, "there was no time left for it")
            checkout = free.get()
            try:
                bound = min(left, RUN_SECONDS_MAX)
                return try_one(checkout, mutation, seconds_max=bound, cluster=cluster)
            finally:
                free.put(checkout)

        yield from pool.map(attempt, mutations)


def try_one(
    checkout: Path,
    mutation: Mutation,
    *,
    seconds_max: float = RUN_SECONDS_MAX,
    cluster: Path | None = None,
) -> Result:
    """Plant a bug in a copy, run what must see it, and take it out again.

    Where one failure says all, it is the last one that is waited for.
    """
    began = time.monotonic()
    with changed(mutate(mutation, checkout)):
        verdicts = run_tests(
            checkout,
            mutation.red,
            seconds_max=seconds_max,
            first_only=len(mutation.red) == 1,
            cluster=None if mutation.shapes_databases else cluster,
        )
    seconds = time.monotonic() - began
    return Result(mutation, verdicts.failed, seconds, judge(mutation, verdicts))
