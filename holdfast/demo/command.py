"""`holdfast demo`: its flags; what it does is imported when it is called."""

from typing import Annotated

from cyclopts import Parameter


def demo(
    *,
    stay: Annotated[
        bool, Parameter(negative="", help="Go on with a trickle of work, to be watched.")
    ] = False,
    port: Annotated[int, Parameter(help="Where the server listens; 0 lets the system choose.")] = 0,
) -> int:
    """Show Holdfast at work on a database of its own, and leave nothing behind.

    Exit code 1: a job ended otherwise than planned, or the audit found something.
    """
    from holdfast.demo.run import run

    return run(stay=stay, port=port)
