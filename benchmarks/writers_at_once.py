"""Run the program with another number of writes at once: what is right is measured, not offered.

python -m benchmarks.writers_at_once COUNT server ...
"""

import sys

from holdfast.cli import app
from holdfast.services import runtime, writers

# Those that write besides the hot operations: renewals, chores, what listens.
OTHER_CONNECTIONS = 6


def main() -> None:
    """Set the number that stands in the code, and go on as the program."""
    count = int(sys.argv.pop(1))
    writers.WRITES_AT_ONCE = count
    runtime.WRITE_CONNECTIONS = count + OTHER_CONNECTIONS
    app.main()


if __name__ == "__main__":
    main()
