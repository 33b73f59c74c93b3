"""No core files of processes that hold secrets: neither written, nor piped to who collects them."""

import resource

# The kernel takes 1 for: not at all. With 0 it would still call the program of `core_pattern`.
_NONE_AT_ALL = 1


def forbid_core_files() -> None:
    """Leave no memory behind in a crash; a task that wants its own may raise its limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == resource.RLIM_INFINITY or hard > _NONE_AT_ALL:
        resource.setrlimit(resource.RLIMIT_CORE, (_NONE_AT_ALL, hard))
