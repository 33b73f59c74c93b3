"""What people do to the work: the verbs, and what they do it to."""

from typing import Literal, get_args

ActionKind = Literal[
    "cancel",
    "dead_letter",
    "replay",
    "discard",
    "rerun",
    "resume",
    "pause_queue",
    "resume_queue",
    "drain_worker",
    "set_policy",
    "unset_policy",
    "cut_over",
    "drop_version",
    "put_trigger",
    "delete_trigger",
    "create_token",
    "rotate_token",
    "revoke_token",
]
SubjectKind = Literal["job", "task", "queue", "worker", "type", "dataset", "token"]
ACTION_KINDS: tuple[str, ...] = get_args(ActionKind)
SUBJECT_KINDS: tuple[str, ...] = get_args(SubjectKind)
