"""The published contract: it compiles, and says what the structs say that are spoken in fact."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from msgspec import inspect

from holdfast.model.datasets import OutputEntry
from holdfast.model.work.outcomes import PutOff
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.wire import answers, cluster, requests, signals, status, terms

ROOT = Path(__file__).resolve().parents[2] / "proto"
PACKAGE = "holdfast.v1"
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "JobStatus": status.JobStatus,
    "JobCause": status.JobCause,
    "TaskStatus": status.TaskStatus,
    "TaskAttempt": status.TaskAttempt,
    "ResourceUsage": status.ResourceUsage,
    "BuildMetrics": status.BuildMetrics,
    "AwaitedSignal": signals.AwaitedSignal,
    "JobTerms": terms.JobTerms,
    "JobUnique": terms.JobUnique,
    "JobFiring": terms.JobFiring,
    "WorkerRegisterRequest": requests.WorkerRegisterRequest,
    "WorkerRegisterAnswer": answers.WorkerRegisterAnswer,
    "Capacity": Capacity,
    "AdoptedAttempt": requests.AdoptedAttempt,
    "AttemptName": answers.AttemptName,
    "WorkerHeartbeatRequest": cluster.WorkerHeartbeatRequest,
    "TaskToRun": cluster.TaskToRun,
    "Gang": cluster.Gang,
    "TaskToKill": cluster.TaskToKill,
    "WorkerHeartbeatAnswer": cluster.WorkerHeartbeatAnswer,
    "RunningTask": cluster.RunningTask,
    "CompletedTaskEntry": cluster.CompletedTask,
    "UserEvent": requests.UserEvent,
    "OutputEntry": OutputEntry,
    "PutOff": PutOff,
}
NAMES = {struct: name for name, struct in STRUCTS.items()}
STATES = {"JobStatus": "JobState", "TaskStatus": "TaskState", "TaskAttempt": "TaskState"} | {
    "RunningTask": "TaskState"
}
# Amounts and counts that do not fit into 32 bits.
WIDE = {
    "after_ms",
    "epoch",
    "number",
    "answered_epoch",
    "answered_number",
    "memory",
    "disk",
    "bytes",
}
DOCUMENT_000 = {
    "JobStatus": {
        "job_id": 1, "state": 2, "exit_code": 3, "error": 4, "started_at_ms": 5,
        "finished_at_ms": 6, "ports": 7, "resource_usage": 8, "status_message": 9,
        "build_metrics": 10, "serialized_result": 13, "parent_job_id": 14, "failure_count": 17,
        "preemption_count": 18, "num_tasks": 19, "tasks_pending": 20, "tasks_running": 21,
        "tasks_succeeded": 22, "tasks_failed": 23, "tasks": 24,
    },
    "TaskStatus": {
        "task_id": 1, "job_id": 2, "task_index": 3, "state": 4, "worker_id": 5,
        "worker_address": 6, "exit_code": 7, "error": 8, "started_at_ms": 9, "finished_at_ms": 10,
        "ports": 11, "resource_usage": 12, "build_metrics": 13, "current_attempt_id": 14,
        "attempts": 15,
    },
}  # fmt: skip
REMOVED = {"worker_id": 11, "worker_address": 12, "current_attempt_id": 15, "attempts": 16}
SCALARS = {
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
}


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> FileDescriptorSet:
    """The contract as the compiler understands it."""
    compiled = tmp_path_factory.mktemp("proto") / "contract.bin"
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", "--fatal_warnings"]
    done = subprocess.run(
        [*command, f"--descriptor_set_out={compiled}", *files],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return FileDescriptorSet.FromString(compiled.read_bytes())


def messages_of(contract: FileDescriptorSet) -> dict[str, DescriptorProto]:
    return {message.name: message for file in contract.file for message in file.message_type}


def published(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """Write the type of a field as it is written in the contract."""
    name = SCALARS.get(field.type) or field.type_name.removeprefix(f".{PACKAGE}.").lstrip(".")
    entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
    entry = entries.get(name.rpartition(".")[2])
    if entry is not None:
        key, value = (published(message, each) for each in entry.field)
        return f"map<{key}, {value}>"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def spoken(kind: Any, name: str, owner: str) -> str:
    """Write the type of a struct's field as the contract would."""
    match kind:
        case inspect.Metadata(type=plain):
            return spoken(plain, name, owner)
        case inspect.UnionType(types=types):
            kinds = [each for each in types if not isinstance(each, inspect.NoneType)]
            if len(kinds) > 1:
                return "google.protobuf.Value"
            told = spoken(kinds[0], name, owner)
            return f"optional {told}" if told in SCALARS.values() else told
        case inspect.StructType(cls=cls):
            return NAMES[cls]
        case inspect.ListType(item_type=item):
            return f"repeated {spoken(item, '', owner)}"
        case inspect.DictType(value_type=inspect.AnyType()):
            return "google.protobuf.Struct"
        case inspect.DictType(key_type=key, value_type=value):
            return f"map<{spoken(key, '', owner)}, {spoken(value, '', owner)}>"
        case inspect.RawType() if name.startswith("serialized_"):
            return "optional bytes"
        case inspect.RawType():
            return "google.protobuf.Value"
        case inspect.StrType() if name == "state":
            return STATES[owner]
        case inspect.StrType() | inspect.UUIDType() | inspect.LiteralType():
            return "string"
        case inspect.IntType():
            return "int64" if name in WIDE or name.endswith(("_ms", "_bytes")) else "int32"
        case inspect.FloatType():
            return "double"
        case inspect.BoolType():
            return "bool"
    raise AssertionError(f"{owner}.{name} is of a kind that the contract has no word for: {kind}")


def test_every_message_of_the_contract_is_spoken(contract: FileDescriptorSet) -> None:
    assert set(messages_of(contract)) == set(STRUCTS)
    assert {file.package for file in contract.file} == {PACKAGE}


@pytest.mark.parametrize("name", STRUCTS)
def test_names_and_types_are_those_of_the_struct(name: str, contract: FileDescriptorSet) -> None:
    message = messages_of(contract)[name]
    told = inspect.type_info(STRUCTS[name])
    assert isinstance(told, inspect.StructType)
    assert {field.name: published(message, field) for field in message.field} == {
        field.encode_name: spoken(field.type, field.name, name) for field in told.fields
    }


@pytest.mark.parametrize("name", DOCUMENT_000)
def test_numbers_are_those_of_document_000(name: str, contract: FileDescriptorSet) -> None:
    message = messages_of(contract)[name]
    given = {field.name: field.number for field in message.field}
    gone = {
        number for range_ in message.reserved_range for number in range(range_.start, range_.end)
    }
    wanted = DOCUMENT_000[name] | (REMOVED if name == "JobStatus" else {})
    for field, number in wanted.items():
        if field in given:
            assert given[field] == number
        else:
            assert number in gone
            assert field in message.reserved_name
    assert len(gone) == len(message.reserved_name) == len(wanted.keys() - given.keys())
    new = set(given.values()) - set(DOCUMENT_000[name].values())
    assert min(new) > max(DOCUMENT_000[name].values())


@pytest.mark.parametrize("name", ["TaskState", "JobState"])
def test_states_carry_their_names_and_numbers(name: str, contract: FileDescriptorSet) -> None:
    enums: dict[str, EnumDescriptorProto] = {
        enum.name: enum for file in contract.file for enum in file.enum_type
    }
    prefix = {"TaskState": "TASK_STATE_", "JobState": "JOB_STATE_"}[name]
    assert {value.name: value.number for value in enums[name].value} == {
        f"{prefix}UNSPECIFIED": 0,
        **{f"{prefix}{state.name}": state.value for state in TaskState},
    }


def test_services_are_called_where_they_are_served(contract: FileDescriptorSet) -> None:
    services: dict[str, ServiceDescriptorProto] = {
        service.name: service for file in contract.file for service in file.service
    }
    assert set(services) == {"WorkerService", "RegistrationService"}
    [heartbeat] = services["WorkerService"].method
    assert f"/{PACKAGE}.WorkerService/{heartbeat.name}" == cluster.HEARTBEAT_PATH
    assert heartbeat.input_type == f".{PACKAGE}.WorkerHeartbeatRequest"
    assert heartbeat.output_type == f".{PACKAGE}.WorkerHeartbeatAnswer"
    [register] = services["RegistrationService"].method
    assert (register.name, register.input_type, register.output_type) == (
        "Register",
        f".{PACKAGE}.WorkerRegisterRequest",
        f".{PACKAGE}.WorkerRegisterAnswer",
    )
