"""Wait for an order from the worker, then turn into its command.

Run as a program (`python -I -S launcher.py SOCKET_FD`), so it knows the standard library only.
The worker tells its watchdog of this process first and sends the order then, so no command runs
that the watchdog does not know. If the worker dies in between, the order does not come.

The order is a marshalled (argv, environment, folder, uid), up to the end of input. The answer is
the reason why it cannot be done; none, once the socket has closed, means that the command runs.
"""

# `signal` itself would take half as long to import as all the rest of this program.
import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import sys

Order = tuple[list[str], dict[str, str], str, int]
_PR_SET_NO_NEW_PRIVS = 38


def take_uid(uid: int) -> None:
    """Be a user of that number alone, for good: no program that it runs gives it more rights."""
    # Here, since who stays who he is need not wait for it; `exec` wants the latter, and that user
    # may not be able to read it any more.
    import ctypes
    import warnings  # noqa: F401

    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "it could get back more rights")


def main(socket: int) -> None:
    """Read the order and carry it out."""
    os.set_inheritable(socket, False)
    with open(socket, "rb", closefd=False) as file:
        text = file.read()
    try:
        argv, environment, folder, uid = marshal.loads(text)
    except EOFError:  # the worker is gone
        return
    # Python ignores these two, and a command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    step = f"cannot be the user {uid}"
    try:
        if uid:
            take_uid(uid)
        step = f"cannot enter the folder {folder!r}"
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
