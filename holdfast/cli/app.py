"""The command line: `holdfast COMMAND`. Commands are imported when they are called, not before.

Exit codes: 0 done, 1 the answer is no (not found, something was found, something failed), 2 it
could not be asked (usage, settings, no server, no database), 3 the time to wait is over, 128 + n
ended by signal n. `run` ends with the code of its command.
"""

import signal
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group, Parameter

from holdfast.cli.extras import find_remedy
from holdfast.cli.output.unread import discard, flush_at_end, open_missing
from holdfast.cli.output.write import remark
from holdfast.cli.settings import SettingsFile, forget_empty_variables, take_token_file
from holdfast.cli.signals import end_on_signals
from holdfast.cli.tls import take_ca_file
from holdfast.cli.variables import check_variables
from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    KeyReused,
    LeaseConflict,
    NotFound,
    NotUnique,
)

EXIT_NO = 1
EXIT_UNAVAILABLE = 2
EXIT_UNREAD = 128 + signal.SIGPIPE
HELP = {"--help", "-h", "--version"}
ANSWERS = (NotFound, KeyReused, NotUnique, IllegalMove, LeaseConflict)
# Name, module and function, purpose, in the order of the help.
COMMANDS = {
    "Start": (
        (
            "up",
            "holdfast.cli.commands.processes.up:up",
            "Start Postgres, a server and a worker on this machine.",
        ),
        (
            "server",
            "holdfast.cli.commands.processes.server:run_server",
            "Serve the API and do the chores.",
        ),
        (
            "worker",
            "holdfast.cli.commands.processes.worker:run_worker",
            "Run tasks, claimed or placed.",
        ),
        (
            "demo",
            "holdfast.demo.command:demo",
            "Show Holdfast at work on a database of its own.",
        ),
    ),
    "Submit": (
        (
            "run",
            "holdfast.cli.commands.submitting.run:run",
            "Run a command on a worker; its output and exit code come here.",
        ),
        (
            "submit",
            "holdfast.cli.commands.submitting.submit:submit",
            "Submit a function, a command, or a whole spec.",
        ),
        (
            "wait",
            "holdfast.cli.commands.work.wait:wait",
            "Wait for jobs and tasks; ends with 0, 1 or, if it takes too long, 3.",
        ),
        ("cancel", "holdfast.cli.commands.work.cancel:cancel", "Cancel jobs and tasks."),
        (
            "signal",
            "holdfast.cli.commands.work.signal:send_signal",
            "Tell a task what its function waits for.",
        ),
        (
            "pass",
            "holdfast.cli.commands.work.let_pass:let_pass",
            "Let a chain go on after a job of it that has failed.",
        ),
        ("rerun", "holdfast.cli.commands.submitting.rerun:rerun", "Submit a job again."),
        (
            "resume",
            "holdfast.cli.commands.submitting.resume:resume",
            "Run again what failed, and what was killed because of that.",
        ),
    ),
    "Look": (
        ("jobs", "holdfast.cli.commands.work.jobs:list_jobs", "List jobs."),
        ("job", "holdfast.cli.commands.work.jobs:show_job", "Show one job with its tasks."),
        ("task", "holdfast.cli.commands.work.task:show_task", "Show one task with its attempts."),
        (
            "graph",
            "holdfast.cli.commands.work.graph:show_graph",
            "Draw the jobs around one, by their order.",
        ),
        (
            "logs",
            "holdfast.cli.commands.work.logs:show_logs",
            "Write what a job or a task has written.",
        ),
        (
            "events",
            "holdfast.cli.commands.work.events:show_events",
            "List or follow what happened.",
        ),
        (
            "explain",
            "holdfast.cli.commands.work.task:explain_task",
            "Say why a task stands where it stands.",
        ),
        (
            "event",
            "holdfast.cli.commands.work.events:write_own_event",
            "Within a task, write an event of its own.",
        ),
        (
            "endpoints",
            "holdfast.cli.commands.work.endpoints:list_endpoints",
            "List addresses that running tasks have published.",
        ),
        (
            "endpoint",
            "holdfast.cli.commands.work.endpoints:app",
            "Look up an address; within a task, publish one.",
        ),
    ),
    "Operate": (
        (
            "overview",
            "holdfast.cli.commands.upkeep.overview:show_overview",
            "Show what needs attention, and where the tasks stand.",
        ),
        (
            "top",
            "holdfast.cli.commands.upkeep.top:show_top",
            "Show servers, queues, workers and running jobs, live.",
        ),
        (
            "doctor",
            "holdfast.cli.commands.upkeep.doctor:examine",
            "Say what is wrong with a set-up, and what to do about it.",
        ),
        (
            "config",
            "holdfast.cli.commands.processes.config:app",
            "Show which settings are in effect, and where they come from.",
        ),
        (
            "actions",
            "holdfast.cli.commands.upkeep.actions:list_actions",
            "List what people have done: who cancelled, replayed, paused.",
        ),
        ("queues", "holdfast.cli.commands.limits.queues:app", "List queues; pause and resume one."),
        (
            "limits",
            "holdfast.cli.commands.limits.limits:app",
            "List limits on slots and rates; show, set and delete one.",
        ),
        (
            "shares",
            "holdfast.cli.commands.limits.shares:app",
            "List how queues are shared; set and unset a rule.",
        ),
        (
            "functions",
            "holdfast.cli.commands.upkeep.functions:list_functions",
            "List the functions that workers have announced.",
        ),
        (
            "types",
            "holdfast.cli.commands.submitting.types:app",
            "List types of jobs; set and show policies.",
        ),
        (
            "schedules",
            "holdfast.cli.commands.submitting.schedules:app",
            "List schedules; set, pause, run and backfill one.",
        ),
        (
            "workers",
            "holdfast.cli.commands.upkeep.workers:app",
            "List workers; show and drain one.",
        ),
        (
            "dead-letters",
            "holdfast.cli.commands.work.dead_letters:app",
            "List, show, replay and discard dead letters.",
        ),
        (
            "datasets",
            "holdfast.cli.commands.datasets:app",
            "List datasets; open, compare, cut over and drop their versions.",
        ),
        (
            "audit",
            "holdfast.cli.commands.upkeep.audit:audit_ledger",
            "Replay every event and report each broken invariant.",
        ),
        (
            "tokens",
            "holdfast.cli.commands.upkeep.tokens:app",
            "Make, list, rotate and revoke tokens.",
        ),
        ("db", "holdfast.cli.commands.processes.db:app", "Create, upgrade and check the schema."),
        ("ca", "holdfast.cli.commands.processes.ca:app", "Make a CA, and certificates for hosts."),
    ),
}


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
    # What is off or empty by default needs no word.
    default_parameter=Parameter(show_default=lambda value: value or None),
    # A command's value is the exit code; everything else is for main() to say.
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    config=SettingsFile([name for group in COMMANDS.values() for name, *_ in group]),
)
for title, commands in COMMANDS.items():
    group = Group.create_ordered(title)
    for rank, (command, target, purpose) in enumerate(commands):
        app.command(target, name=command, help=purpose, group=group, sort_key=rank)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    open_missing()
    forget_empty_variables()
    given = take_token_file(given)
    with end_on_signals() as ended_by:
        try:
            if given and not HELP & set(given):
                check_variables(app)
            given = take_ca_file(given)
            answer = app(given)
            sys.stdout.flush()
        except CycloptsError as error:
            return _complain(f"{error} See `holdfast --help`.", EXIT_UNAVAILABLE)
        except HoldfastError as error:
            return _complain(str(error), exit_code_of(error), below=getattr(error, "log_tail", ""))
        except ModuleNotFoundError as error:
            remedy = find_remedy(error)
            if remedy is None:
                raise
            return _complain(remedy, EXIT_UNAVAILABLE)
        except BrokenPipeError:
            discard(sys.stdout)  # whoever read it has seen enough
            return EXIT_UNREAD
        except OSError as error:
            discard(sys.stdout)
            return _complain(str(error), EXIT_UNAVAILABLE)
        except SystemExit as error:
            # So rich, which writes help and some tables, ends when a pipe is broken.
            if not isinstance(error.__context__, BrokenPipeError):
                raise
            return 0 if not given or HELP & set(given) else EXIT_UNREAD
        except KeyboardInterrupt:
            return 128 + ended_by()
        finally:
            flush_at_end(sys.stdout, sys.stderr)
    return answer if isinstance(answer, int) else 0


def exit_code_of(error: HoldfastError) -> int:
    """Tell a question whose answer is no from one that could not be asked."""
    return EXIT_NO if isinstance(error, ANSWERS) else EXIT_UNAVAILABLE


def _complain(text: str, code: int, *, below: str = "") -> int:
    """Say what is wrong in one line; what Postgres itself had to say stands below it."""
    remark(f"holdfast: {' '.join(text.split())}")
    for line in below.splitlines():
        remark(f"    {line}")
    return code


if __name__ == "__main__":
    sys.exit(main())
