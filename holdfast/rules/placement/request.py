"""Check what a submission asks of the workers it is placed on: amounts, conditions, gangs."""

import re

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.spec import JobSpec, Limits, Submission
from holdfast.model.workers.resources import GPU_MAX, Resources, parse_size
from holdfast.rules.placement.constraints import check_constraint

CPU_MAX = 4096.0
SIZE_MAX = 1 << 60
PORTS_MAX = 32
CONSTRAINTS_MAX = 32
REQUIREMENTS_MAX = 1000
_PORT = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_BUNDLE = re.compile(r"[0-9a-f]{64}")
_PLACED_ONLY = ("constraints", "coscheduling", "bundle", "requirements")
_GIVEN_OUT = ("gpu", "gpu_model", "ports")


def check_placing(submission: Submission, limits: Limits) -> None:
    """Refuse what cannot be placed, and what only placed work can ask for."""
    spec = submission.spec
    if spec.resources is not None:
        _check_resources(spec.resources)
    if spec.queue is not None:
        asked = {field: getattr(spec, field) for field in _PLACED_ONLY}
        # The scheduler gives these out one by one; who claims has amounts alone.
        asked |= {f"resources.{name}": getattr(spec.resources, name, None) for name in _GIVEN_OUT}
        for field, value in asked.items():
            if value:
                raise Invalid(field, "goes with placed work; leave out queue to have it placed")
        return
    if len(spec.constraints) > CONSTRAINTS_MAX:
        raise TooLarge("constraints", len(spec.constraints), CONSTRAINTS_MAX, unit="constraints")
    for index, constraint in enumerate(spec.constraints):
        check_constraint(constraint, f"constraints[{index}]")
    _check_gang(submission, limits)
    _check_workspace(spec)


def complete_resources(resources: Resources | None) -> Resources | None:
    """Write sizes as numbers of bytes."""
    if resources is None:
        return None
    return msgspec.structs.replace(
        resources,
        memory=parse_size(resources.memory, "resources.memory"),
        disk=parse_size(resources.disk, "resources.disk"),
    )


def _check_resources(resources: Resources) -> None:
    if not 0 < resources.cpu <= CPU_MAX:
        raise Invalid("resources.cpu", f"is out of range; use more than 0 and up to {CPU_MAX:g}")
    for field in ("memory", "disk"):
        size = parse_size(getattr(resources, field), f"resources.{field}")
        if not 0 <= size <= SIZE_MAX:
            raise Invalid(f"resources.{field}", f"is out of range; use 0 to {SIZE_MAX} bytes")
    if not 0 <= resources.gpu <= GPU_MAX:
        raise Invalid("resources.gpu", f"is out of range; use 0 to {GPU_MAX}")
    if resources.gpu_model is not None and not resources.gpu:
        raise Invalid("resources.gpu_model", "goes with gpu; say how many")
    if len(resources.ports) > PORTS_MAX:
        raise TooLarge("resources.ports", len(resources.ports), PORTS_MAX, unit="ports")
    names = [name.upper() for name in resources.ports]
    if len(set(names)) < len(names):
        raise Invalid("resources.ports", "names a port twice")
    for name in resources.ports:
        if not _PORT.fullmatch(name):
            raise Invalid(
                "resources.ports", f"{name!r} is not a name; use a letter, then letters, digits, _"
            )


def _check_gang(submission: Submission, limits: Limits) -> None:
    gang = submission.spec.coscheduling
    if gang is None:
        return
    if submission.inputs is not None:
        raise Invalid("coscheduling", "goes with replicas, not with inputs")
    if submission.spec.max_task_failures:
        raise Invalid("max_task_failures", "goes without coscheduling: a gang fails as a whole")
    if submission.num_tasks > limits.gang_tasks_max:
        raise TooLarge("replicas", submission.num_tasks, limits.gang_tasks_max, unit="gang members")
    if gang.group_by == "":
        raise Invalid("coscheduling.group_by", "is empty; leave it out or name an attribute")


def _check_workspace(spec: JobSpec) -> None:
    if spec.bundle is not None and not _BUNDLE.fullmatch(spec.bundle):
        raise Invalid("bundle", "is not a content hash; upload the workspace and give what it says")
    if len(spec.requirements) > REQUIREMENTS_MAX:
        raise TooLarge("requirements", len(spec.requirements), REQUIREMENTS_MAX, unit="lines")
    for index, line in enumerate(spec.requirements):
        field = f"requirements[{index}]"
        if not line.strip() or len(line) > 1000 or "\n" in line or "\x00" in line:
            raise Invalid(field, "is not one requirement, such as numpy==2.1")
        if line.lstrip().startswith("-"):
            raise Invalid(field, "is an option; give requirements only, such as numpy==2.1")
