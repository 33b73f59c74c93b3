"""A worker of placed work that is called through a line: `python placed_worker.py OPTIONS`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from holdfast.model.workers.resources import Capacity
from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.placed.worker import PlacedOptions, PlacedWorker
from holdfast.worker.slots import take_slot


async def main(options: dict[str, Any]) -> None:
    """Run a worker on the folder, port and address it is told."""
    folder = Path(options.pop("folder"))
    slot = take_slot(folder)
    room = Capacity(1.0, 1 << 30)
    own = folder / "slot-0"
    chosen = PlacedOptions(folder=own, capacity=room, allowed=EVERYTHING, **options)
    await PlacedWorker(chosen, slot).run()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
