"""A verb's arguments as a whole: what is missing or unknown is refused before any value is read."""

from __future__ import annotations

from typing import Any

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.rules.fields import check_fields


def refusal(fields: Any) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        check_fields(fields, required=("domain", "body"), optional=("title",))
    assert caught.value.code == "invalid_input"
    return caught.value


def test_every_field_is_given_and_an_absent_one_is_none() -> None:
    given = check_fields({"body": "b", "domain": "d"}, required=("domain", "body"), optional=("title",))
    assert given == {"domain": "d", "body": "b", "title": None}


@pytest.mark.parametrize("fields", [{"domain": "d"}, {"domain": "d", "body": None}])
def test_a_required_field_that_is_absent_or_null_is_named(fields: dict[str, Any]) -> None:
    assert refusal(fields).details == {"field": "body", "rule": "required"}


@pytest.mark.parametrize("value", ["", 0, False, []])
def test_an_empty_value_is_not_an_absent_one(value: Any) -> None:
    assert check_fields({"body": value}, required=("body",)) == {"body": value}


def test_unknown_fields_are_counted_and_their_names_not_repeated() -> None:
    refused = refusal({"domain": "d", "body": "b", "space_id": "other", "planted-name": 1})
    assert refused.details == {"field": "arguments", "rule": "unknown_field"}
    assert "2 unknown" in refused.message
    assert "planted-name" not in refused.message


def test_an_unknown_field_is_refused_also_where_it_is_null() -> None:
    assert refusal({"domain": "d", "body": "b", "note": None}).details["rule"] == "unknown_field"


def test_unknown_comes_before_missing() -> None:
    assert refusal({"note": 1}).details["rule"] == "unknown_field"


def test_case_056_the_arguments_of_a_caller_are_not_changed() -> None:
    fields = {"domain": "d", "body": "b"}
    given = check_fields(fields, required=("domain", "body"), optional=("title",))
    given["domain"] = "other"
    assert fields == {"domain": "d", "body": "b"}
