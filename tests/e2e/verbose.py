"""The program, which logs all that anything within it can log, whatever level it was set to."""

import logging
import sys

from holdfast.cli.app import main


def _stay(self: logging.Logger, level: int | str) -> None:
    return


logging.getLogger().setLevel(logging.DEBUG)
logging.Logger.setLevel = _stay  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
