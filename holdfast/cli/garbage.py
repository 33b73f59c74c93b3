"""How often Python looks for cycles among the objects of a process that lives long.

Rows, claims and reports come by the thousand and refer to nothing. To look among them, and among
all that is loaded, costs a third of the time in which they are worked on.
"""

import gc

_USUAL = gc.get_threshold()
# Between two looks of a server, and of a worker: whose functions may leave large things in cycles.
SERVER_ALLOCATIONS = 10_000
WORKER_ALLOCATIONS = 5_000


def collect_garbage_rarely(allocations: int) -> None:
    """Look for cycles after more allocations than usual, and never among what is loaded by now.

    What imported code has chosen otherwise stays as it is.
    """
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == _USUAL:
        gc.set_threshold(allocations, 10, 10)
