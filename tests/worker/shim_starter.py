"""A worker process that starts a shim, says so, and then does nothing: `... FOLDER < ORDER`."""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from holdfast.worker.placed.launcher_handle import Launcher
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_messages import ShimOrder


def main(folder: Path) -> None:
    """Start what is ordered on stdin, and wait to be killed."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ShimOrder)
    asyncio.run(Shim.start(Launcher(), folder, order))
    sys.stdout.write("started\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
