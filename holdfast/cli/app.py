"""The command line: `holdfast COMMAND`. Commands are imported when they are called, not before.

Exit codes: 0 done, 1 the answer is no (something was found, something does not fit), 2 it could not
be asked (usage, no database), 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from holdfast.cli.signals import end_on_signals
from holdfast.errors import HoldfastError

EXIT_UNAVAILABLE = 2
COMMANDS = (
    (
        "demo",
        "holdfast.cli.demo",
        "demo",
        "Show Holdfast at work on a database of its own, and leave nothing behind.",
    ),
    ("server", "holdfast.cli.server", "run_server", "Serve the API and do the chores."),
    ("worker", "holdfast.cli.worker", "run_worker", "Claim tasks from queues and run them."),
    (
        "audit",
        "holdfast.cli.audit",
        "audit_ledger",
        "Replay every event against the tables and report each broken invariant.",
    ),
    ("db", "holdfast.cli.db", "app", "Create, upgrade and check the schema."),
)


def read_version() -> str:
    """Read the version of the installed package."""
    from importlib.metadata import version

    return f"holdfast {version('holdfast')}"


app = App(
    name="holdfast",
    help="Run work that has to finish, on one ledger in Postgres.",
    version=read_version,
    version_flags="--version",
    help_format="plaintext",
    # A command's value is the exit code; everything else is for main() to say.
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
for command, module, function, purpose in COMMANDS:
    app.command(f"{module}:{function}", name=command, help=purpose)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    with end_on_signals() as ended_by:
        try:
            answer = app(sys.argv[1:] if arguments is None else list(arguments))
            sys.stdout.flush()
        except CycloptsError as error:
            return _complain(f"{error} See `holdfast --help`.")
        except HoldfastError as error:
            return _complain(str(error))
        except BrokenPipeError:
            _discard_output()  # whoever read it has seen enough
            return EXIT_UNAVAILABLE
        except OSError as error:
            _discard_output()
            return _complain(str(error))
        except KeyboardInterrupt:
            return 128 + ended_by()
    return answer if isinstance(answer, int) else 0


def _complain(text: str) -> int:
    """Say what is wrong in one line; what Postgres itself had to say stands below it."""
    head, mark, said = text.partition("\nPostgres said:\n")
    sys.stderr.write(f"holdfast: {' '.join(head.split())}\n")
    if mark:
        sys.stderr.write(f"{said.rstrip()}\n")
    return EXIT_UNAVAILABLE


def _discard_output() -> None:
    """Let what is still in the buffer go nowhere: it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
