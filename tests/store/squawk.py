"""Have squawk read the migrations that run beside a ledger at work; as a module, for `./run lint`.

What may hold others up, or break programs of the version before, is refused. `squawk.toml` has the
rules that are left out. Migrations up to 23 were released before, and stay as they are.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from holdfast.store.migrate import Migration, load_schema

LAST_BEFORE_ROLLING_UPGRADES = 23
SECONDS_MAX = 60
_CONFIG = Path(__file__).with_suffix(".toml")
_SQUAWK = Path(sys.executable).with_name("squawk")


def read_with_squawk(migrations: Iterable[Migration]) -> str:
    """Return what squawk has found in the migrations; nothing if all is well."""
    found = ""
    with tempfile.TemporaryDirectory(prefix="holdfast-squawk-") as folder:
        for migration in migrations:
            # As Postgres gets it: states are numbers there.
            name = f"{migration.version:04}_{migration.name}.sql"
            Path(folder, name).write_text(migration.text, encoding="utf-8")
            within = [] if migration.statements_outside else ["--assume-in-transaction"]
            read = subprocess.run(
                [_SQUAWK, "--config", _CONFIG, *within, name],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                check=False,
            )
            if read.returncode != 0:
                found += read.stdout + read.stderr
    return found


def main() -> None:
    """Read our migrations; what was found goes to standard error, and the exit code is 1."""
    found = read_with_squawk(load_schema().migrations[LAST_BEFORE_ROLLING_UPGRADES:])
    if found:
        sys.exit(found)


if __name__ == "__main__":
    main()
