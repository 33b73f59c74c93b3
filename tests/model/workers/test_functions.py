"""Functions as workers announce them: what is not set is not written."""

import msgspec

from holdfast.model.submitting.spec import JobSpec
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions


def test_every_option_is_a_field_of_a_job_with_the_same_shape() -> None:
    kinds = {field.name: field.type for field in msgspec.structs.fields(JobSpec)}
    kinds["only_in_queue"] = bool  # of the announcement alone: for which jobs the others count
    for field in msgspec.structs.fields(FunctionOptions):
        assert kinds[field.name] == field.type


def test_an_announcement_is_written_as_what_it_says() -> None:
    function = AnnouncedFunction(path="a:b", options=FunctionOptions(queue="q"))
    text = msgspec.json.encode(function)
    assert text == b'{"path":"a:b","options":{"queue":"q"},"parameters":[],"doc":null}'
    assert msgspec.json.decode(text, type=AnnouncedFunction) == function
