"""Processes of the program that cost no imports: a process that has made them forks for each.

What is forked is what would have been started: a process in a session of its own, with the
arguments, variables and folder it is given, which ends as the interpreter ends. Only the imports
are older than it.
"""

import gc
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

# Beside the commands themselves: what they import once they are called.
IMPORTED = ("holdfast.client.client", "holdfast.client.transport", "holdfast.store.migrate")


def main() -> None:
    """Fork for every order on standard input; say the pid of each, and how it ended."""
    program = Path(sys.executable).with_name("holdfast")
    sys.path[0] = str(program.parent)  # as for the program
    from holdfast.cli.app import COMMANDS

    modules = {target.split(":")[0] for group in COMMANDS.values() for _, target, _ in group}
    for module in (*sorted(modules), *IMPORTED):
        importlib.import_module(module)
    gc.freeze()
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            _run(str(program), json.loads(line))
        _answer(pid)
        _answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _run(program: str, order: dict[str, Any]) -> NoReturn:
    """Be the program."""
    from holdfast.cli.app import main

    os.setsid()
    sys.stdin = open(os.devnull)  # noqa: SIM115
    os.dup2(sys.stdin.fileno(), 0)
    for descriptor, path in ((1, order["out"]), (2, order["err"])):
        if order["unread"] == descriptor:
            reader, file = os.pipe()
            os.close(reader)
        else:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = [program, *order["arguments"]]
    sys.exit(main())


if __name__ == "__main__":
    main()
