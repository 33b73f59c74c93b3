"""What a function returns that was called once for many tasks."""

from typing import Any

from holdfast.errors import PermanentError


def read_answers(value: Any, count: int) -> list[Any]:
    """Give what was returned for each of so many tasks. Raises PermanentError."""
    if not isinstance(value, list | tuple):
        found = type(value).__name__
        raise PermanentError(f"the batch returned a {found}; return a list, one item for each task")
    if len(value) != count:
        raise PermanentError(
            f"the batch returned {len(value)} results for {count} tasks; return one for each"
        )
    return list(value)
