"""Let a job of a function have the options that workers have announced for it.

The function `holdfast.add_announced` of the database does the same for submissions by SQL.
"""

from collections.abc import Mapping

import msgspec

from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.model.workers.functions import FunctionOptions
from holdfast.rules.policies.fill import is_held_to_policies

# What is asked of the workers of placed work; a job that asks for it and names no queue is placed.
OF_PLACED_WORK = ("resources", "constraints", "coscheduling", "bundle", "requirements")


def add_announced(submission: Submission, announced: Mapping[str, FunctionOptions]) -> JobSpec:
    """Give the spec with what its function has been announced with, where it says nothing itself.

    A job that was taken in before is complete, and stays as it is.
    """
    spec = submission.spec
    options = announced.get(spec.entrypoint.function or "")
    if options is None or not is_held_to_policies(submission):
        return spec
    if options.only_in_queue and spec.queue != options.queue:
        return spec
    left_out = {"only_in_queue"}
    if submission.is_placed or any(getattr(spec, name) for name in OF_PLACED_WORK):
        left_out.add("queue")
    if spec.queue is not None and options.queue is None:
        left_out.update(OF_PLACED_WORK)
    if spec.max_attempts is not None:
        left_out.add("max_retries_failure")
    if spec.expires_at is not None:
        left_out.add("expires")
    if submission.inputs is not None:
        left_out.add("replicas")
    if spec.idempotency_key is not None:
        # A key counts among the jobs of its owner, who must be the same in every repeat.
        left_out.add("owner")
    filled = {
        name: getattr(options, name)
        for name in FunctionOptions.__struct_fields__
        if name not in left_out and getattr(spec, name) in (None, [], {})
    }
    return msgspec.structs.replace(spec, **filled)
