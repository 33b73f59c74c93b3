"""Find a Chromium for the tests of the dashboard and write where it is; with --fetch, get one.

Nothing is written if there is none. That is no error here: the tests that need it say so.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLAYWRIGHT = (sys.executable, "-m", "playwright")
DOWNLOAD_SECONDS_MAX = 120
PACKAGE_SECONDS_MAX = 600
MISSING = (
    "chromium: none was found, none could be fetched; the tests of the dashboard will fail. "
    "Install one (Debian: apt-get install chromium; elsewhere: .venv/bin/playwright install "
    "chromium) or set HOLDFAST_CHROMIUM to the program.\n"
)


def main(arguments: list[str]) -> int:
    """Write the path of a browser, if there is one."""
    found = find()
    if found is None and arguments == ["--fetch"]:
        sys.stderr.write("chromium: fetching it for the tests of the dashboard\n")
        found = fetch()
        if found is None:
            sys.stderr.write(MISSING)
    sys.stdout.write(f"{found}\n" if found else "")
    return 0


def find() -> str | None:
    """Look where it may be: named, on the path, or downloaded by playwright."""
    named = os.environ.get("HOLDFAST_CHROMIUM")
    if named:
        return shutil.which(named)
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    return find_downloaded()


def find_downloaded() -> str | None:
    """Ask playwright where its own would be, and look."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def fetch() -> str | None:
    """Download playwright's; else install the system's, if this user may."""
    if attempt([*PLAYWRIGHT, "install", "chromium"], DOWNLOAD_SECONDS_MAX):
        return find()
    if os.geteuid() == 0 and shutil.which("apt-get"):
        attempt(["apt-get", "update"], PACKAGE_SECONDS_MAX)
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        attempt(install, PACKAGE_SECONDS_MAX)
        return find()
    return None


def attempt(command: list[str], seconds_max: int) -> bool:
    """Run a command quietly; tell whether it did what it is for."""
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        ended = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
