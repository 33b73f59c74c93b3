"""What people do to the work: the verbs, and what they do it to."""

from typing import Literal, get_args

ActionKind = Literal[
    "cancel",
    "let_pass",
    "signal",
    "dead_letter",
    "replay",
    "discard",
    "rerun",
    "resume",
    "pause_queue",
    "resume_queue",
    "set_shares",
    "unset_shares",
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
    "set_schedule",
    "delete_schedule",
    "pause_schedule",
    "resume_schedule",
    "run_schedule",
    "backfill_schedule",
    "declare_schedule",
    "retire_schedule",
    "put_limit",
    "delete_limit",
]
SubjectKind = Literal[
    "job", "task", "queue", "worker", "type", "dataset", "token", "limit", "schedule"
]
ACTION_KINDS: tuple[str, ...] = get_args(ActionKind)
SUBJECT_KINDS: tuple[str, ...] = get_args(SubjectKind)
