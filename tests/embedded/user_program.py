"""A process that uses an embedded Postgres, told line by line on stdin what to do; answers in JSON.

Knows the standard library and Holdfast only, so that it runs as any user.
"""

import argparse
import ctypes
import json
import os
import sys
from pathlib import Path

from holdfast.embedded import EmbeddedPostgres, PostgresUnavailable
from holdfast.embedded.launch import CLONE_NEWUSER, Identity, become


def forbid_namespaces() -> None:
    """Enter a namespace like the outside in all but that no further one may be made."""
    maps = {name: Path(f"/proc/self/{name}").read_text() for name in ("uid_map", "gid_map")}
    lines = {
        name: "\n".join(f"{inside} {inside} {count}" for inside, _, count in _triples(text))
        for name, text in maps.items()
    }
    read_end, write_end = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.read(read_end, 1)
        for name, text in lines.items():
            Path(f"/proc/{os.getppid()}/{name}").write_text(text)
        os._exit(0)
    assert ctypes.CDLL(None).unshare(CLONE_NEWUSER) == 0
    os.write(write_end, b"!")
    assert os.waitpid(mapper, 0)[1] == 0
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def _triples(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def answer(postgres: EmbeddedPostgres, word: str) -> object:
    """Carry out one command."""
    match word:
        case "start":
            postgres.start()
            return postgres.pid
        case "stop":
            postgres.stop()
        case "url":
            return postgres.url()
        case "create":
            postgres.create_database("created")
        case _:
            raise AssertionError(word)
    return None


def main() -> None:
    """Obey until stdin ends, then stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--binaries", type=Path)
    parser.add_argument("--root-in-namespace", action="store_true")
    parser.add_argument("--forbid-namespaces", action="store_true")
    options = parser.parse_args()
    if options.root_in_namespace:
        become(Identity(uid_inside=0))
    if options.forbid_namespaces:
        forbid_namespaces()
    postgres = EmbeddedPostgres(
        options.folder, binaries=options.binaries, settings={"fsync": "off"}
    )
    try:
        for line in sys.stdin:
            try:
                reply = {"done": answer(postgres, line.strip())}
            except PostgresUnavailable as error:
                reply = {"error": str(error)}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
    finally:
        postgres.stop()


if __name__ == "__main__":
    main()
