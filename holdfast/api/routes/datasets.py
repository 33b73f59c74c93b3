"""The routes of datasets: create, open, cut over, drop, read, compare; and what cut-overs start."""

import re
from typing import Any

from holdfast.api import dataset_answers as answers
from holdfast.api.convert import to_ms
from holdfast.api.page_tokens import (
    Index,
    PageToken,
    Text,
    check_page_size,
    read_token,
    write_token,
)
from holdfast.api.route import Call, Reply, Route, decode_text
from holdfast.errors import Invalid
from holdfast.model.access.roles import Role
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.operations.datasets import triggers as dataset_triggers
from holdfast.operations.datasets import versions as datasets
from holdfast.operations.datasets.cut_over import cut_over
from holdfast.rules.submitting.outputs import VERSION_MAX, check_name
from holdfast.rules.submitting.submission import check_text
from holdfast.store.reads import datasets as reads
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.datasets import (
    LIST_PATH,
    CompareQuery,
    ComparisonPage,
    CutOverAnswer,
    CutOverPage,
    CutOverRequest,
    DatasetListQuery,
    DatasetPage,
    DatasetRequest,
    DatasetStatus,
    EntryPage,
    TriggerList,
    TriggerRequest,
    VersionPage,
    VersionRequest,
    VersionStatus,
)
from holdfast.wire.requests import JobRequest, Nothing, PageQuery
from holdfast.wire.status import Changed

_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
CURRENT = "current"


class NameToken(PageToken, frozen=True):
    """A dataset."""

    name: Text


class EntryToken(PageToken, frozen=True):
    """A key of a version: whoever reads on reads on there, whatever is current by then."""

    version: Index
    key: str


class ComparedToken(PageToken, frozen=True):
    """A key up to which two versions have been compared."""

    before: Index
    after: Index
    key: str


class NumberToken(PageToken, frozen=True):
    """A version of a dataset, or one of its cut-overs."""

    number: Index


async def create_dataset(call: Call[DatasetRequest, Nothing]) -> Reply:
    """Create a dataset: 201, or 200 if it is there already."""
    found, is_new = await datasets.create_dataset(
        call.runtime.ledger, call.body.name, actor=call.actor, metadata=call.body.metadata
    )
    return Reply(answers.dataset(found), 201 if is_new else 200)


async def list_datasets(call: Call[None, DatasetListQuery]) -> DatasetPage:
    """List datasets by name."""
    asked = call.query
    check_text("name", asked.name or "", 256)
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, NameToken)
    async with call.runtime.reads.transaction() as tx:
        page = await reads.list_datasets(
            tx, asked.name or "", after="" if token is None else token.name, page_size=page_size
        )
    following = None if page.next_after is None else NameToken(page.next_after)
    return DatasetPage([answers.dataset(row) for row in page.rows], write_token(following))


async def show_dataset(call: Call[None, Nothing]) -> DatasetStatus:
    """Read one dataset."""
    async with call.runtime.reads.transaction() as tx:
        return answers.dataset(await reads.get_dataset(tx, _name(call)))


async def open_version(call: Call[VersionRequest, Nothing]) -> Reply:
    """Open the next version; under a key that was seen before it is the version of that time."""
    name = _name(call)
    opened = await datasets.open_version(
        call.runtime.ledger,
        name,
        actor=call.actor,
        based_on=call.body.based_on,
        idempotency_key=call.body.idempotency_key,
    )
    async with call.runtime.reads.transaction() as tx:
        return Reply(answers.version(name, await reads.get_version(tx, name, opened.version)), 201)


async def list_versions(call: Call[None, PageQuery]) -> VersionPage:
    """List the versions of a dataset, the newest first."""
    name, asked = _name(call), call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, NumberToken)
    before = reads.NUMBER_MAX if token is None else token.number
    async with call.runtime.reads.transaction() as tx:
        page = await reads.list_versions(tx, name, before=before, page_size=page_size)
    following = None if page.next_after is None else NumberToken(page.next_after)
    return VersionPage([answers.version(name, row) for row in page.rows], write_token(following))


async def show_version(call: Call[None, Nothing]) -> VersionStatus:
    """Read one version, or the current one."""
    name, wanted = _name(call), _wanted(call.path["version"], "version")
    async with call.runtime.reads.transaction() as tx:
        return answers.version(name, await reads.get_version(tx, name, wanted))


async def list_entries(call: Call[None, PageQuery]) -> EntryPage:
    """List the entries of a version by key; all pages that follow are of the same version."""
    name, wanted, asked = _name(call), _wanted(call.path["version"], "version"), call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, EntryToken)
    if token is not None:
        if wanted not in (None, token.version):
            raise Invalid("page_token", f"is of version {token.version}, and not of {wanted}")
        wanted = token.version
    after = "" if token is None else token.key
    check_text("page_token", after, 1024)
    async with call.runtime.reads.snapshot() as tx:
        version = await reads.get_version(tx, name, wanted)
        page = await reads.list_entries(tx, name, version, after=after, page_size=page_size)
    following = None if page.next_after is None else EntryToken(version.version, page.next_after)
    return EntryPage(
        version.version, [answers.entry(row) for row in page.rows], write_token(following)
    )


async def compare_versions(call: Call[None, CompareQuery]) -> ComparisonPage:
    """Say what was added, removed and changed from one version to another, by key."""
    name, asked = _name(call), call.query
    before, after = _wanted(asked.from_, "from"), _wanted(asked.to, "to")
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, ComparedToken)
    key = ""
    if token is not None:
        before, after, key = token.before, token.after, token.key
        check_text("page_token", key, 1024)
    async with call.runtime.reads.snapshot() as tx:
        old = await reads.get_version(tx, name, before)
        new = await reads.get_version(tx, name, after)
        found = await reads.compare_versions(
            tx, name, old, other=new, after=key, page_size=page_size
        )
    following = (
        None
        if found.next_after is None
        else ComparedToken(old.version, new.version, found.next_after)
    )
    differences = [answers.difference(each) for each in found.differences]
    return ComparisonPage(old.version, new.version, differences, write_token(following))


async def cut_dataset_over(call: Call[CutOverRequest, Nothing]) -> CutOverAnswer:
    """Make a version the one that readers get; an open one is sealed by that."""
    name, asked = _name(call), call.body
    made = await cut_over(
        call.runtime.ledger,
        name,
        asked.version,
        actor=call.actor,
        reason=asked.reason,
        force=asked.force,
        idempotency_key=asked.idempotency_key,
    )
    return CutOverAnswer(
        dataset=name,
        version=made.version,
        previous=made.previous,
        at_ms=to_ms(made.at),
        changed=made.changed,
        triggered=made.triggered,
    )


async def list_cut_overs(call: Call[None, PageQuery]) -> CutOverPage:
    """List the cut-overs of a dataset, the latest first."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, NumberToken)
    before = reads.NUMBER_MAX if token is None else token.number
    async with call.runtime.reads.transaction() as tx:
        page = await reads.list_cut_overs(tx, _name(call), before=before, page_size=page_size)
    following = None if page.next_after is None else NumberToken(page.next_after)
    return CutOverPage([answers.cut_over(row) for row in page.rows], write_token(following))


async def drop_version(call: Call[Nothing, Nothing]) -> Changed:
    """Drop a version that is not the current one; its entries go, its record stays."""
    version = _wanted(call.path["version"], "version")
    if version is None:
        raise Invalid("version", "is the current one, which is not dropped; give a number")
    ledger = call.runtime.ledger
    return Changed(await datasets.drop_version(ledger, _name(call), version, actor=call.actor))


async def put_trigger(call: Call[TriggerRequest, Nothing]) -> Reply:
    """Have each new version start a job when it is cut over to; again changes the job."""
    is_new = await dataset_triggers.put_trigger(
        call.runtime.ledger,
        _name(call),
        call.path["trigger"],
        submission=_template(call.body.spec),
        actor=call.actor,
    )
    return Reply(Changed(True), 201 if is_new else 200)


async def list_triggers(call: Call[None, Nothing]) -> TriggerList:
    """List the jobs that a cut-over starts."""
    async with call.runtime.reads.transaction() as tx:
        rows = await reads.list_triggers(tx, _name(call))
    return TriggerList([answers.trigger(row) for row in rows])


async def remove_trigger(call: Call[None, Nothing]) -> Changed:
    """Have cut-overs start this job no more."""
    is_gone = await dataset_triggers.delete_trigger(
        call.runtime.ledger, _name(call), call.path["trigger"], actor=call.actor
    )
    return Changed(is_gone)


def _name(call: Call[Any, Any]) -> str:
    check_name("dataset", call.path["dataset"])
    return call.path["dataset"]


def _wanted(text: str, field: str) -> int | None:
    """Read a version's number; None is the current one."""
    if text == CURRENT:
        return None
    if not _NUMBER.fullmatch(text) or int(text) > VERSION_MAX:
        raise Invalid(field, f"{text!r} is not a version; give its number, or {CURRENT}")
    return int(text)


def _template(asked: JobRequest) -> Submission:
    if asked.local_name is not None:
        raise Invalid("spec.local_name", "goes with graphs only; leave it out")
    spec = JobSpec(**{name: getattr(asked, name) for name in JobSpec.__struct_fields__})
    if asked.inputs is None:
        return Submission(spec)
    texts = (decode_text(text, f"spec.inputs[{i}]") for i, text in enumerate(asked.inputs))
    return Submission(spec, tuple(texts))


_CONFLICT = {409: ErrorAnswer}
_ONE = f"{LIST_PATH}/{{dataset}}"
_VERSIONS = f"{_ONE}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"
_TRIGGER = f"{_ONE}/triggers/{{trigger}}"
# Routes with a suffix such as :cut-over stand before those whose last part takes anything.
ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        LIST_PATH,
        create_dataset,
        DatasetStatus,
        Role.SUBMIT,
        body=DatasetRequest,
        also={201: DatasetStatus, **_CONFLICT},
    ),
    Route("GET", LIST_PATH, list_datasets, DatasetPage, Role.READ, query=DatasetListQuery),
    Route(
        "POST",
        f"{_ONE}:cut-over",
        cut_dataset_over,
        CutOverAnswer,
        Role.ADMIN,
        body=CutOverRequest,
        also=_CONFLICT,
    ),
    Route(
        "GET",
        f"{_ONE}:compare",
        compare_versions,
        ComparisonPage,
        Role.CONTENT,
        query=CompareQuery,
        also=_CONFLICT,
    ),
    Route("GET", _ONE, show_dataset, DatasetStatus, Role.READ),
    Route(
        "POST",
        _VERSIONS,
        open_version,
        None,
        Role.SUBMIT,
        body=VersionRequest,
        also={201: VersionStatus, **_CONFLICT},
    ),
    Route("GET", _VERSIONS, list_versions, VersionPage, Role.READ, query=PageQuery),
    Route(
        "POST", f"{_VERSION}:drop", drop_version, Changed, Role.ADMIN, body=Nothing, also=_CONFLICT
    ),
    Route("GET", _VERSION, show_version, VersionStatus, Role.READ),
    Route(
        "GET",
        f"{_VERSION}/entries",
        list_entries,
        EntryPage,
        Role.CONTENT,
        query=PageQuery,
        also=_CONFLICT,
    ),
    Route("GET", f"{_ONE}/cut-overs", list_cut_overs, CutOverPage, Role.READ, query=PageQuery),
    Route(
        "PUT", _TRIGGER, put_trigger, Changed, Role.ADMIN, body=TriggerRequest, also={201: Changed}
    ),
    Route("GET", f"{_ONE}/triggers", list_triggers, TriggerList, Role.CONTENT),
    Route("DELETE", _TRIGGER, remove_trigger, Changed, Role.ADMIN),
)
