"""The keeper: leases stay alive, starts and progress are told, and whoever must stop is told."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from holdfast.client.transport import Transport
from holdfast.wire.answers import WorkerRegisterAnswer
from holdfast.wire.requests import Progress, WorkerRegisterRequest
from holdfast.worker.claimed import attempt as attempt_module
from holdfast.worker.claimed import lease_keeper
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.completions import Completions
from holdfast.worker.claimed.lease_keeper import Keeper
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import KILLED, Outcome
from holdfast.worker.running_code import RunningCode
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import Workplace, call, serving_elsewhere


class Kept:
    """A keeper, and what it has asked for."""

    def __init__(self, url: str, watchdog: WatchdogHandle, worker_id: str) -> None:
        self.stops: list[tuple[str, str]] = []
        self.stuck: list[str] = []
        self.drains = 0
        self.code = RunningCode()
        self.failures: list[BaseException] = []
        self.keeper = Keeper(
            Transport(url),
            worker_id,
            watchdog,
            code=self.code,
            on_stop=lambda attempt, mode: self.stops.append((attempt.task_id, mode)),
            on_stuck=lambda attempt: self.stuck.append(attempt.task_id),
            on_drain=self._note_drain,
            on_failure=self.failures.append,
        )

    def _note_drain(self) -> None:
        self.drains += 1


@pytest.fixture
def worker_id() -> str:
    """The name of the worker whose leases are kept."""
    return f"w-{uuid4().hex}"


@asynccontextmanager
async def keeping(url: str, watchdog: WatchdogHandle, worker_id: str) -> AsyncIterator[Kept]:
    """Keep leases for the time of a block."""
    kept = Kept(url, watchdog, worker_id)
    kept.keeper.start()
    try:
        yield kept
    finally:
        await asyncio.to_thread(kept.keeper.stop)


@pytest.fixture
async def kept(
    workplace: Workplace, watchdog: WatchdogHandle, worker_id: str
) -> AsyncIterator[Kept]:
    """A keeper at work."""
    async with keeping(workplace.url, watchdog, worker_id) as kept:
        yield kept
        assert not kept.failures


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have reports that failed sent again soon."""
    monkeypatch.setattr(attempt_module, "AGAIN_SECONDS_MAX", 0.05)


async def an_attempt_of(workplace: Workplace, worker_id: str, **spec: Any) -> Attempt:
    """Submit a task and claim it for the worker."""
    await workplace.submit(call("echo", 1), **spec)
    [attempt] = await workplace.claim(worker_id=worker_id)
    return attempt


async def renewed(attempt: Attempt) -> None:
    """Have a lease renewed right now, and wait for it."""
    before = attempt.expires_at
    attempt.renew_at = 0.0
    await eventually(lambda: attempt.expires_at > before)


async def lease_of(workplace: Workplace, attempt: Attempt) -> Any:
    [lease] = await workplace.about("leases", attempt.task_id)
    return lease


async def test_a_lease_is_renewed_again_and_again(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id, lease=1.5)
    first = attempt.expires_at
    kept.keeper.hold([attempt])
    await eventually(lambda: attempt.expires_at > first + 1.0)
    assert (await lease_of(workplace, attempt))["attempt"] == 0
    assert not kept.stops


async def test_renewals_do_not_need_the_loop_of_the_worker(
    workplace: Workplace, database_url: str, watchdog: WatchdogHandle, worker_id: str
) -> None:
    with serving_elsewhere(database_url) as url:
        async with keeping(url, watchdog, worker_id) as kept:
            attempt = await an_attempt_of(workplace, worker_id, lease=3.0)
            first = attempt.expires_at
            kept.keeper.hold([attempt])
            # Nothing else happens on this loop until then.
            while attempt.expires_at < first + 0.5:
                assert boot_clock() < first + 30
            assert not kept.stops


async def test_a_renewal_counts_from_when_it_was_asked_for(
    workplace: Workplace, watchdog: WatchdogHandle, worker_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_keeper, "BEAT_SECONDS_MAX", 30.0)
    async with FaultyProxy(workplace.url) as proxy, keeping(proxy.url, watchdog, worker_id) as kept:
        attempt = await an_attempt_of(workplace, worker_id, lease=120.0)
        kept.keeper.hold([attempt])
        first, stored = attempt.expires_at, (await lease_of(workplace, attempt))["expires_at"]
        proxy.hold_answers()
        attempt.renew_at = 0.0

        async def is_renewed() -> bool:
            return bool((await lease_of(workplace, attempt))["expires_at"] > stored)

        await eventually(is_renewed)
        renewed_by = boot_clock()
        await eventually(lambda: boot_clock() > renewed_by + 0.2)
        proxy.mend()
        await eventually(lambda: attempt.expires_at > first)
        assert attempt.expires_at <= renewed_by + 120.0


async def test_what_was_dropped_is_renewed_no_longer(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    other = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([attempt])
    kept.keeper.hold([other])
    kept.keeper.drop(attempt)
    first, attempt.renew_at = attempt.expires_at, 0.0
    await renewed(other)
    await renewed(other)
    assert attempt.expires_at == first


async def test_a_start_is_told_once_the_code_has_run_for_a_moment(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([attempt])
    attempt.started_at = boot_clock()
    await workplace.reach(attempt.task_id, "RUNNING")
    await eventually(lambda: attempt.start_reported)


async def test_a_conflict_about_an_attempt_that_is_over_stops_nobody(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    async with Transport(workplace.url) as transport:
        completions = Completions(
            transport, worker_id, on_acknowledged=lambda _: None, on_failure=kept.failures.append
        )
        kept.keeper.hold([attempt])
        attempt.is_over = True  # and the keeper is not told to drop it
        completions.add(attempt, Outcome("succeeded", 0))
        await completions.wait_until_acknowledged()
        attempt.renew_at = 0.0
        await eventually(lambda: attempt.report_not_before > 0)  # the conflict has been heard
        await completions.close()
    assert attempt.stop is None
    assert not kept.stops


async def test_a_lease_that_was_taken_away_stops_the_code(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id, lease=120.0)  # longer than we look
    kept.keeper.hold([attempt])
    attempt.lease_token = uuid4()
    attempt.renew_at = 0.0
    await eventually(lambda: kept.stops)
    assert kept.stops == [(attempt.task_id, "lost")]
    assert attempt.stop_at <= boot_clock()


async def test_code_is_stopped_before_a_lease_runs_out_that_cannot_be_renewed(
    workplace: Workplace, watchdog: WatchdogHandle, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id, lease=1.2)
    async with FaultyProxy(workplace.url) as proxy, keeping(proxy.url, watchdog, worker_id) as kept:
        kept.keeper.hold([attempt])
        await proxy.cut()
        await eventually(lambda: kept.stops)
        assert boot_clock() < attempt.expires_at
        assert kept.stops == [(attempt.task_id, "lost")]


@pytest.mark.usefixtures("impatient")
async def test_a_renewal_that_fails_is_tried_again(
    workplace: Workplace, watchdog: WatchdogHandle, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    first = attempt.expires_at
    async with FaultyProxy(workplace.url) as proxy, keeping(proxy.url, watchdog, worker_id) as kept:
        await proxy.cut()
        kept.keeper.hold([attempt])
        attempt.renew_at = boot_clock()
        await eventually(lambda: attempt.report_not_before > 0)
        proxy.mend()
        await eventually(lambda: attempt.expires_at > first)
        assert not kept.stops


async def test_a_soft_cancel_is_passed_on_and_becomes_a_hard_one_after_its_grace(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id, grace=1.0)
    kept.keeper.hold([attempt])
    asked_at = boot_clock()
    await workplace.cancel(attempt.task_id, "soft")
    await eventually(lambda: kept.stops)
    assert attempt.stop_by is not None
    assert attempt.stop_by > asked_at + 0.99  # all of it, but for what is lost in rounding
    await eventually(lambda: len(kept.stops) == 2)
    assert kept.stops == [(attempt.task_id, "soft"), (attempt.task_id, "hard")]


async def test_a_hard_cancel_is_passed_on_and_once(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([attempt])
    other = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([other])
    await workplace.cancel(attempt.task_id)
    await eventually(lambda: kept.stops)
    expires_at, attempt.renew_at = attempt.expires_at, 0.0
    await renewed(other)
    await renewed(other)  # which would say it again
    assert kept.stops == [(attempt.task_id, "hard")]
    assert attempt.expires_at == expires_at  # nothing is renewed from then on


async def test_code_that_must_go_and_is_still_there_is_said_to_be_stuck_once(
    workplace: Workplace, kept: Kept, worker_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "STUCK_SECONDS_MAX", 0.2)
    here, elsewhere = [await an_attempt_of(workplace, worker_id) for _ in range(2)]
    here.in_process = True
    kept.keeper.hold([here, elsewhere])
    await workplace.cancel(here.task_id)
    await workplace.cancel(elsewhere.task_id)
    await eventually(lambda: kept.stuck)
    await eventually(lambda: boot_clock() > (elsewhere.stuck_at or boot_clock()) + 0.2)
    assert kept.stuck == [here.task_id]
    here.is_over = True


async def test_a_run_that_takes_too_long_has_its_grace_before_it_is_killed(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id, timeout=0.1, grace=0.4)
    kept.keeper.hold([attempt])
    attempt.started_at = boot_clock()
    await eventually(lambda: len(kept.stops) == 2)
    assert kept.stops == [(attempt.task_id, "timeout"), (attempt.task_id, "hard")]


async def test_progress_is_told_and_the_latest_word_counts(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([attempt])
    for step in range(100):
        attempt.progress = Progress(step / 100, "step")
    await eventually(lambda: not attempt.has_news())
    notes = await workplace.notes(attempt.task_id)
    assert '"fraction":0.99' in notes[-1]["payload"]
    assert len(notes) <= 2


@pytest.mark.usefixtures("impatient")
async def test_progress_that_the_server_refuses_costs_nobody_a_lease(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    other = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([attempt])
    kept.keeper.hold([other])
    attempt.progress = Progress(0.5, "x" * 1000)
    attempt.renew_at = other.renew_at = 0.0
    first = other.expires_at
    await eventually(lambda: min(attempt.expires_at, other.expires_at) > first)
    assert attempt.report_not_before > 0  # it had been refused before
    assert not kept.stops


async def test_the_server_can_ask_for_a_drain(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    async with Transport(workplace.url) as transport:
        body = WorkerRegisterRequest(worker_id, "w", "here")
        await transport.call("POST", "/internal/worker-register", WorkerRegisterAnswer, body=body)
    await workplace.drain(worker_id)
    await eventually(lambda: kept.drains)


async def test_the_death_of_the_watchdog_is_told_once(workplace: Workplace, slot: Any) -> None:
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    async with keeping(workplace.url, watchdog, "w") as kept:
        os.kill(watchdog.pid, signal.SIGKILL)
        await eventually(lambda: kept.failures)
        attempt = await an_attempt_of(workplace, "w")
        kept.keeper.hold([attempt])
        attempt.in_process = True
        await renewed(attempt)  # it goes on until all is stopped
        assert [type(failure) for failure in kept.failures] == [WatchdogLost]
    watchdog.stop()


async def test_code_does_not_enter_this_process_without_a_watchdog(
    workplace: Workplace, slot: Any
) -> None:
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    os.kill(watchdog.pid, signal.SIGKILL)
    await eventually(lambda: not watchdog.is_alive())
    kept = Kept(workplace.url, watchdog, "w")
    attempt = await an_attempt_of(workplace, "w")
    attempt.in_process = True
    with pytest.raises(WatchdogLost):
        kept.keeper.hold([attempt])
    watchdog.stop()


async def test_many_leases_are_kept_with_few_requests(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    await workplace.submit(call("echo"), list(range(500)))
    attempts = await workplace.claim(500, worker_id)
    first = attempts[0].expires_at
    for attempt in attempts:
        attempt.renew_at = 0.0
        kept.keeper.hold([attempt])
    await eventually(lambda: min(attempt.expires_at for attempt in attempts) > first)
    assert not kept.stops


async def test_a_hard_cancel_that_is_obeyed_is_confirmed(
    workplace: Workplace, kept: Kept, worker_id: str
) -> None:
    attempt = await an_attempt_of(workplace, worker_id)
    kept.keeper.hold([attempt])
    await workplace.cancel(attempt.task_id)
    await eventually(lambda: kept.stops)
    assert (await lease_of(workplace, attempt))["ending"]
    async with Transport(workplace.url) as transport:
        completions = Completions(
            transport, worker_id, on_acknowledged=kept.keeper.drop, on_failure=kept.failures.append
        )
        attempt.is_over = True
        completions.add(attempt, KILLED)
        await completions.wait_until_acknowledged()
        await completions.close()
    assert not await workplace.about("leases", attempt.task_id)
