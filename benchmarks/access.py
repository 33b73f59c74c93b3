"""Drain no-op tasks with neither tokens nor TLS, with tokens, and with both; compare the costs."""

import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.queue import PROGRAM
from benchmarks.ways import report, run_plainly
from holdfast.tls.authority import create_authority, issue


def ask_for_tokens(url: str, _folder: Path) -> Mapping[str, str]:
    """Ask whoever calls for a token; the one that is made here may do everything."""
    migrate = (PROGRAM, "db", "migrate", "--database-url", url)
    subprocess.run(migrate, check=True, capture_output=True)
    create = ("tokens", "create", "--name", "bench", "--role", "admin", "--database-url", url)
    made = subprocess.run([PROGRAM, *create], check=True, capture_output=True, text=True)
    return {"HOLDFAST_REQUIRE_TOKENS": "true", "HOLDFAST_TOKEN": made.stdout.strip()}


def ask_and_encrypt(url: str, folder: Path) -> Mapping[str, str]:
    """Serve by TLS, too, with a certificate of a CA for this run."""
    now = datetime.now(UTC)
    ca_file = create_authority(folder / "ca", now).cert
    cert, key = issue(folder / "ca", "server", ["127.0.0.1"], now=now, days=1, role="server")
    return {
        **ask_for_tokens(url, folder),
        "HOLDFAST_TLS_CERT": str(cert),
        "HOLDFAST_TLS_KEY": str(key),
        "HOLDFAST_CA_FILE": str(ca_file),
    }


if __name__ == "__main__":
    report({"off": run_plainly, "tokens": ask_for_tokens, "both": ask_and_encrypt}, __doc__)
