"""Processes that belong together: started in order, watched, and ended in order.

Each child has a session of its own, so Ctrl-C reaches the parent alone and the parent decides who
goes first. A child whose parent has died is asked to end by the kernel.
"""

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from holdfast.cli.output.write import remark
from holdfast.cli.supervisor import end_with_parent

END_SECONDS_MAX = 20.0


@dataclass(frozen=True)
class Child:
    """One of the processes."""

    name: str
    process: asyncio.subprocess.Process
    ended: "asyncio.Task[int]"

    @property
    def is_alive(self) -> bool:
        """Tell whether it has not ended yet."""
        return not self.ended.done()

    def ask_to_end(self) -> None:
        """Send it a request to terminate; asking twice means what it means to the child."""
        with suppress(ProcessLookupError):
            self.process.terminate()


async def start_child(
    name: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    *,
    with_output: bool = False,
    log: int | None = None,
) -> Child:
    """Start another command of this program; what it writes goes where we do, or to `log`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast.cli.app",
        *arguments,
        env=variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE if with_output else log,
        stderr=log,
        start_new_session=True,
        preexec_fn=partial(end_with_parent, signal.SIGTERM),
    )
    return Child(name, process, asyncio.create_task(process.wait()))


async def end_children(children: Sequence[Child], seconds_max: float) -> None:
    """Ask children to end and wait for it; whoever does not is killed."""
    living = [child for child in children if child.is_alive]
    for child in living:
        child.ask_to_end()
    if living:
        await asyncio.wait([child.ended for child in living], timeout=seconds_max)
    for child in living:
        if child.is_alive:
            remark(f"holdfast: {child.name} does not end, and is killed")
            with suppress(ProcessLookupError):
                child.process.kill()
            await child.ended
