"""The shim: one small process beside every placed attempt, which outlives the worker.

Forked by its launcher (`holdfast.worker.processes.shim_launcher`), which this file is run as: so it
knows the standard library only. Worker and shim meet in the attempt's folder alone, so any later
worker process takes over where one has died:

    worker                      FOLDER                       shim
      | argv, token, deadline ->  order.json               -> |  starts the command
      | deadline, soft, hard  ->  control       (a FIFO)   -> |  kills it at the deadline
      | is it there?         <-   lock, alive              <- |  holds both to its end
      | the command runs     <-   started                  <- |
      | what it uses         <-   usage.json               <- |  now and then
      | how it ended         <-   exit.json                <- |  once all of it is gone

`lock` is held with flock: it can be had when the shim is gone, however it went, and no number of a
process is ever trusted. `alive` is a FIFO whose end of file means the same, without polling.
`holdfast.worker.processes.command_supervisor` does the work, `holdfast.worker.placed.shim_handle`
is the worker's side.
"""

import os
import sys


def pretend_packages(here: str) -> None:
    """Make our own modules importable, but not what the packages' own imports would bring in."""
    for name, folder in (
        ("holdfast", os.path.dirname(os.path.dirname(here))),
        ("holdfast.worker", os.path.dirname(here)),
        ("holdfast.worker.processes", here),
    ):
        package = type(os)(name)
        package.__path__ = [folder]
        sys.modules[name] = package


if __name__ == "__main__":
    pretend_packages(os.path.dirname(os.path.abspath(__file__)))
    # What it does is a module of its own, so that it is compiled once.
    from holdfast.worker.processes.shim_launcher import main

    main(int(sys.argv[1]), int(sys.argv[2]))
