"""The cluster: Postgres's own folder, made whole or not at all, and of one major version."""

import os
import shutil
import time
from pathlib import Path

from holdfast.embedded import identity
from holdfast.embedded.errors import PostgresUnavailable
from holdfast.embedded.folder import Folder
from holdfast.embedded.launch import Order
from holdfast.embedded.locks import is_free, turns_until

INITDB_OPTIONS = [
    "--username=postgres",
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
]
# From version 17 on: sorts and folds case alike on every machine, whatever its C library knows.
BUILTIN_LOCALE = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]


def create_cluster(
    folder: Folder, binaries: Path, *, version: int, is_durable: bool, deadline: float
) -> None:
    """Create the cluster aside and move it into place. The caller holds the transition lock."""
    # The `initdb` of a killed process may still be at work; it holds the lock as a server would.
    if not any(is_free(folder.lock("server")) for _ in turns_until(deadline)):
        problem = f"Something else is still at work in {folder.path}."
        raise PostgresUnavailable(problem, "Try again in a while.")
    if folder.cluster_unfinished.exists():
        shutil.rmtree(folder.cluster_unfinished)
    program, logged = binaries / "initdb", folder.log_size()
    options = [*INITDB_OPTIONS, *(BUILTIN_LOCALE if version >= 17 else [])]
    options += [] if is_durable else ["--no-sync"]
    order = Order(
        [str(program), f"--pgdata={folder.cluster_unfinished}", *options],
        identity.choose_identity(folder.path, program),
        str(folder.path),
        log=str(folder.log),
        server_lock=str(folder.lock("server")),
    )
    exit_code = identity.run(order, deadline - time.monotonic())
    if exit_code != 0:
        raise PostgresUnavailable(
            f"Postgres cannot create its files in {folder.path}: initdb ended with {exit_code}.",
            "See below for its reason; nothing was left half made.",
            folder.log_tail(since=logged),
        )
    folder.cluster_unfinished.rename(folder.cluster)
    _sync(folder.path)


def check_version(folder: Folder, ours: int) -> None:
    """Raise PostgresUnavailable if the cluster was made by another major version."""
    theirs = (folder.cluster / "PG_VERSION").read_text().strip()
    if theirs != str(ours):
        raise PostgresUnavailable(
            f"The folder {folder.path} was made by PostgreSQL {theirs}; this is PostgreSQL {ours}.",
            f"Move the data with pg_dump of version {theirs} and psql of version {ours}, or name "
            "another folder (HOLDFAST_DATA_DIR) to start empty.",
        )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
