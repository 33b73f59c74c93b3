"""A runner of processes, and the attempts it is given."""

import asyncio
from typing import Any

from holdfast.client.transport import Transport
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.process_runner import ProcessRunner
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.watchdog_handle import WatchdogHandle
from tests.waiting import eventually
from tests.worker.workplace import Workplace


class Outside:
    """A runner on a workplace, and the attempts it is given."""

    def __init__(
        self,
        workplace: Workplace,
        transport: Transport,
        watchdog: WatchdogHandle,
        fd: int,
        *,
        hides_devices: bool = False,
    ) -> None:
        self.workplace = workplace
        self.folder = workplace.folder / "attempts"
        self.runner = ProcessRunner(
            self.folder, transport, watchdog, lock_fd=fd, hides_devices=hides_devices
        )

    async def claim(self, entrypoint: dict[str, Any] | str, **spec: Any) -> Attempt:
        """Submit a task, a shell line or more, and claim it."""
        chosen = {"shell": entrypoint} if isinstance(entrypoint, str) else entrypoint
        await self.workplace.submit(chosen, **spec)
        [attempt] = await self.workplace.claim()
        return attempt

    async def run(self, entrypoint: dict[str, Any] | str, **spec: Any) -> tuple[Attempt, Outcome]:
        """Run a task to its end."""
        attempt = await self.claim(entrypoint, **spec)
        return attempt, await self.runner.run(attempt, None)

    async def begin(
        self, entrypoint: dict[str, Any] | str, **spec: Any
    ) -> tuple[Attempt, asyncio.Task[Outcome]]:
        """Run a task until it says that it has begun, by a file in its folder."""
        attempt = await self.claim(entrypoint, **spec)
        running = asyncio.create_task(self.runner.run(attempt, None))
        await eventually((self.folder / f"{attempt.task_id}.0" / "work" / "began").exists)
        await eventually(lambda: attempt.on_stop)
        return attempt, running
