"""A Postgres with a migrated template, made once for many runs of tests: each begins with a copy.

To make one takes longer than most runs of a few tests.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.migrate import migrate
from tests.databases import TEMPLATE

# Says where one is.
VARIABLE = "TESTS_CLUSTER"
# Durability is not the subject of most tests, and to compile a plan takes longer than to run it.
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "jit": "off"}


@contextmanager
def running_cluster(folder: Path, binaries: Path | None = None) -> Iterator[EmbeddedPostgres]:
    """Run a Postgres with a migrated template in a new folder: a copy, if one was prepared."""
    prepared = os.environ.get(VARIABLE)
    if prepared is not None and binaries is None:
        shutil.copytree(prepared, folder)
        with EmbeddedPostgres(folder, settings=QUICK) as postgres:
            yield postgres
        return
    with EmbeddedPostgres(folder, binaries=binaries, settings=QUICK) as postgres:
        postgres.create_database(TEMPLATE)
        asyncio.run(migrate(postgres.url(TEMPLATE)))
        yield postgres


@contextmanager
def prepared_cluster() -> Iterator[Path]:
    """Prepare one, for the time of a block."""
    with TemporaryDirectory(prefix="holdfast-cluster-") as name:
        # Programs that run as other users may have to get past it.
        Path(name).chmod(0o755)
        folder = Path(name) / "cluster"
        with running_cluster(folder):
            pass
        yield folder
