"""What a worker may run: the functions it was given, what is allowed by name, or anything.

Whoever may submit chooses what is run; by this list, an operator chooses what there is to choose.
A function is looked at twice: by the path that its job names, before anything is imported, and by
what was found under it, before that is called.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import ModuleType

import msgspec

from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.work.outcomes import REFUSED_BY_WORKER
from holdfast.worker.running.attempt_outcome import Outcome

ANYTHING = "*"
# Variables by which Python or the loader of programs runs other code than it was started for.
_BRINGS_CODE = ("PYTHON", "LD_", "DYLD_", "GCONV_PATH")
_OPENS_NO_PICKLES = "opens no pickles, which are any function; start it with --allow '*'"


class CallLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call is held to on a worker that does not run anything: it is sent along with it.

    `own_names` are paths and patterns; None where the function was given, or named without one.
    """

    worker: str
    own_names: list[str] | None = None

    def find_refusal(self, path: str, steps: Sequence[object]) -> Outcome | None:
        """Say how an attempt ends whose path led by these steps to what may not be called."""
        for number, step in reversed([*enumerate(steps[:-1], 1)]):
            if isinstance(step, ModuleType):
                names = path.partition(":")[2].split(".")[number:]
                direct = f"{step.__name__}:{'.'.join(names)}"
                problem = f"finds nothing by way of another module, as in {path}; submit {direct}"
                return _refuse(self.worker, f"{problem}, and start it with --allow {direct}")
        if self.own_names is None:
            return None
        own = _own_name(steps[-1])
        if own is None:
            what = f"{type(steps[-1]).__name__} without a name of its own under {path}"
            return _refuse(self.worker, f"finds a {what}; start it with --allow {path}")
        if any(_matches(own, each) for each in self.own_names):
            return None
        problem = f"finds {own} under {path}, and was not given that"
        return _refuse(self.worker, f"{problem}; start it with --allow {path}, if it is meant")

    def refuse_pickles(self) -> Outcome:
        """Say how an attempt ends that was to be called with what somebody else has pickled."""
        return _refuse(self.worker, _OPENS_NO_PICKLES)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A worker's list: functions by path, and by patterns such as `shop.*`; `*` is anything.

    A pickle is any function there is, and a bundle any program.
    """

    functions: Collection[str] = ()
    patterns: tuple[str, ...] = ()
    commands: bool = False

    def find_refusal(
        self,
        entrypoint: Entrypoint,
        worker: str,
        *,
        variables: Iterable[str] = (),
        brings_code: bool = False,
    ) -> Outcome | None:
        """Say how an attempt ends that this worker may not run; None if it may, so far."""
        problem = self._find_problem(entrypoint, variables, brings_code=brings_code)
        return None if problem is None else _refuse(worker, problem)

    def limit(
        self, entrypoint: Entrypoint, worker: str, *, brings_code: bool = False
    ) -> CallLimit | None:
        """Say what a call is held to that this worker may make; None if to nothing."""
        if ANYTHING in self.patterns or brings_code or not entrypoint.is_function:
            return None
        if entrypoint.function in self.functions or entrypoint.function in self.patterns:
            return CallLimit(worker)
        return CallLimit(worker, [*self.functions, *self.patterns])

    def _find_problem(
        self, entrypoint: Entrypoint, variables: Iterable[str], *, brings_code: bool
    ) -> str | None:
        if not entrypoint.is_function:
            return None if self.commands else "runs no commands; start it with --allow-commands"
        if brings_code:
            return None if self.commands else "runs no bundles; start it with --allow-commands"
        if ANYTHING in self.patterns:
            return None
        path = entrypoint.function
        if path is None:
            return _OPENS_NO_PICKLES
        for name in variables:
            if name.startswith(_BRINGS_CODE) and not self.commands:
                return f"lets no job set {name}, which runs code; start it with --allow-commands"
        if path in self.functions or any(_matches(path, each) for each in self.patterns):
            return None
        module = path.partition(":")[0]
        return (
            f"was not given {path}; start it with --import {module}, if that module decorates "
            f"it, or with --allow {path}"
        )


def _refuse(worker: str, problem: str) -> Outcome:
    return Outcome("failed", None, f"worker {worker} {problem}", REFUSED_BY_WORKER, "fetch")


def _own_name(found: object) -> str | None:
    """Name what was found as the module does that defines it; an instance has no such name."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    return f"{module}:{name}" if isinstance(module, str) and isinstance(name, str) else None


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a path matches, name by name: `shop.*` is not `shop.mail:os.system`."""
    module, _, attribute = path.partition(":")
    modules, _, attributes = pattern.partition(":")
    names, wanted = attribute.split("."), (attributes or "*").split(".")
    return (
        fnmatchcase(module, modules)
        and len(names) == len(wanted)
        and all(map(fnmatchcase, names, wanted))
    )


EVERYTHING = Allowed(patterns=(ANYTHING,), commands=True)
