"""Events that user code writes: told from ours by how their types begin."""

# As a filter: all of them.
USER = "user"
USER_PREFIX = f"{USER}:"
