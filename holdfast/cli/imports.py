"""Modules with tasks, as `--import` names them: imported by workers, and tried by `up` first.

As a program it imports the modules that it is given, and says which one cannot be imported.
"""

import importlib
import subprocess
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from sysconfig import get_paths

from holdfast.cli.output.text import inert
from holdfast.cli.output.unread import while_read
from holdfast.cli.output.write import remark
from holdfast.errors import Invalid

FLAG = "--import"
EXIT_INVALID = 2
OUTPUT_BYTES_MAX = 10_000


def import_modules(names: Iterable[str], codec: str | None = None) -> None:
    """Import modules with tasks, and a codec; they are found in this folder, too."""
    sys.path.insert(0, str(Path.cwd()))
    for name in names:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # users' code raises what it likes
            problem = f"{name!r} cannot be imported: {describe_failure(error)}"
            raise Invalid(FLAG, problem) from error
    if codec is not None:
        from holdfast.client.codec import load_codec

        load_codec(codec)


def describe_failure(error: BaseException) -> str:
    """Describe what an import has raised in one line, with the line of the file that it is at."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    what = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is ours
    run = [frame for frame in frames if not frame.filename.startswith("<frozen importlib")]
    if not [frame for frame in run if frame.filename != importlib.__file__]:
        return f"{what}; it is looked for in this folder and on PYTHONPATH"
    libraries = ("<frozen", *(get_paths()[kind] for kind in ("stdlib", "purelib", "platlib")))
    own = [frame for frame in run if not frame.filename.startswith(libraries)]
    last = (own or run)[-1]
    return f"{last.filename}, line {last.lineno}: {what}"


def try_imports(names: Sequence[str]) -> bool:
    """Import modules in a process of their own, for a try; writes what that says if one fails."""
    if not names:
        return True
    tried = subprocess.run(
        [sys.executable, "-m", __name__, *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if tried.returncode:
        said = tried.stderr[-OUTPUT_BYTES_MAX:].decode(errors="replace").rstrip()
        with while_read(sys.stderr):
            sys.stderr.write(f"{inert(said, keep=chr(10))}\n")
    return tried.returncode == 0


def main() -> int:
    """Import the modules that are named; returns an exit code."""
    try:
        import_modules(sys.argv[1:])
    except Invalid as error:
        remark(f"holdfast: {' '.join(str(error).split())}")
        return EXIT_INVALID
    return 0


if __name__ == "__main__":
    sys.exit(main())
