"""Calls in a forked process, such as a pool of processes makes them."""

import os
import warnings
from collections.abc import Callable

from holdfast.errors import HoldfastError


def in_a_fork(call: Callable[[], object]) -> str:
    """Call something in a fork of this process; returns what it gave, or the error, as text."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of threads and forks; how the two get along is the subject here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            said = str(call())
        except HoldfastError as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    assert os.waitpid(child, 0)[1] == 0
    return said
