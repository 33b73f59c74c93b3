"""What placed work is asked for on the command line: resources, conditions, gang, workspace.

A job is placed if one of these flags is given, and waits in a queue otherwise: nobody has to know
the two kinds of work to run `echo hello`.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cyclopts import Group, Parameter

from holdfast.cli.files import read_requirements
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.model.workers.resources import Resources
    from holdfast.wire.requests import JobRequest

_GROUP = Group(
    "Placed work",
    help="One of these, and the job is placed on workers (`holdfast worker --placed`) instead of "
    "waiting in a queue. With a queue, --cpu, --memory and --disk are what its worker must have.",
)


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, kw_only=True)
class PlacedFlags:
    """What each task of a placed job needs; what is left out is the server's default."""

    placed: Annotated[
        bool, Parameter(negative="", help="Place it, with the defaults of all below.")
    ] = False
    gang: Annotated[bool, Parameter(negative="", help="Start all replicas together, or none.")] = (
        False
    )
    group_by: Annotated[
        str | None,
        Parameter(help="A gang on workers that share this attribute, such as rack."),
    ] = None
    hosts: Annotated[
        Literal["spread", "pack"] | None,
        Parameter(help="A gang with each task on a host of its own, or all on one host."),
    ] = None
    cpu: Annotated[float | None, Parameter(help="Cores for each task. Default: 1.")] = None
    memory: Annotated[str | None, Parameter(help="Memory for each task, such as 4GB.")] = None
    disk: Annotated[str | None, Parameter(help="Disk for each task, such as 100GB.")] = None
    gpu: Annotated[str | None, Parameter(help="GPUs for each task: 2, or 2:H100.")] = None
    port: Annotated[
        tuple[str, ...],
        Parameter(help="A port, by a name: http is HOLDFAST_PORT_HTTP; repeat it.", negative=""),
    ] = ()
    constraint: Annotated[
        tuple[str, ...],
        Parameter(
            help="What the worker must have, such as region=eu, 'gpu_gb>=40', 'rack in r1,r2' or "
            "'nvme exists'; repeat it.",
            negative="",
        ),
    ] = ()
    workspace: Annotated[
        Path | None, Parameter(help="A folder to take along; each task runs in its copy.")
    ] = None
    requirement: Annotated[
        tuple[str, ...],
        Parameter(help="A Python package for it, such as numpy==2.1; repeat it.", negative=""),
    ] = ()
    requirements: Annotated[
        str | None,
        Parameter(
            name=["--requirements", "-r"],
            help="A file of such packages, one a line; - is stdin.",
            allow_leading_hyphen=True,
        ),
    ] = None

    def find_given(self, *, has_queue: bool = False) -> str | None:
        """Name a flag that is given; None if the job need not be placed.

        With a queue, amounts are those of claimed work.
        """
        given = (
            each.name
            for each in fields(self)
            if getattr(self, each.name) != each.default
            and not (has_queue and each.name in ("cpu", "memory", "disk"))
        )
        name = next(given, None)
        return None if name is None else name.replace("_", "-")

    def fields(self) -> dict[str, Any]:
        """Write them as fields of a job's spec; the workspace is uploaded first."""
        from holdfast.model.workers.resources import Coscheduling
        from holdfast.rules.placement.constraints import parse_constraint

        listed = [] if self.requirements is None else read_requirements(self.requirements)
        found = {
            "resources": self._resources(),
            "constraints": [parse_constraint(text) for text in self.constraint],
            "coscheduling": Coscheduling(self.group_by, self.hosts)
            if self.gang or self.group_by is not None or self.hosts is not None
            else None,
            "requirements": [*self.requirement, *listed],
        }
        return {name: value for name, value in found.items() if value}

    def _resources(self) -> "Resources | None":
        from holdfast.model.workers.resources import Resources, parse_size
        from holdfast.worker.placed.host_resources import parse_gpu

        count, model = (0, None) if self.gpu is None else parse_gpu(self.gpu)
        if self.gpu is not None and not count:
            raise Invalid("gpu", "is none at all; leave it out, or say how many")
        given: dict[str, Any] = {
            "cpu": self.cpu,
            "memory": None if self.memory is None else parse_size(self.memory, "memory"),
            "disk": None if self.disk is None else parse_size(self.disk, "disk"),
            "gpu": count or None,
            "gpu_model": model,
            "ports": list(self.port) or None,
        }
        known = {name: value for name, value in given.items() if value is not None}
        return Resources(**known) if known else None


NO_PLACING = PlacedFlags()


def with_workspace(client: "Client", request: "JobRequest", placing: PlacedFlags) -> "JobRequest":
    """Upload the folder that a job takes along, and name it in the job's request."""
    if placing.workspace is None:
        return request
    return msgspec.structs.replace(request, bundle=client.upload(placing.workspace))
