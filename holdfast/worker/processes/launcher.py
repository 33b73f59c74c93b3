"""Wait for an order from the worker, then turn into its command.

Run as a program (`python -I -S launcher.py SOCKET_FD`), so it knows the standard library only.
The worker tells its watchdog of this process first and sends the order then, so no command runs
that the watchdog does not know. If the worker dies in between, the order does not come.

The order is a marshalled (argv, environment, folder), up to the end of input. The answer is the
reason why it cannot be done; none at all, once the socket has closed, means that the command runs.
"""

# `signal` itself would take half as long to import as all the rest of this program.
import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import sys

Order = tuple[list[str], dict[str, str], str]


def main(socket: int) -> None:
    """Read the order and carry it out."""
    os.set_inheritable(socket, False)
    with open(socket, "rb", closefd=False) as file:
        text = file.read()
    try:
        argv, environment, folder = marshal.loads(text)
    except EOFError:  # the worker is gone
        return
    # Python ignores these two, and a command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    step = f"cannot enter the folder {folder!r}"
    try:
        os.chdir(folder)
        step = f"cannot run {argv[0]!r}"
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        reason = f"{step}: {error.strerror}"
    except ValueError as error:  # a NUL character, or a name with = in it
        reason = f"{step}: {error}"
    os.write(socket, reason.encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
