"""The one table of error codes holds every code, and what is no refusal leaves as a request id alone."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import pytest

import memory_core
from memory_core import errors
from memory_core.errors import Kind, MemoryCoreError
from memory_core.surfaces.faults import HTTP_STATUS, fault_json
from memory_core.surfaces.mcp_server import build_server

PACKAGE = Path(memory_core.__file__).parent
FIXED = {
    "invalid": "invalid_input",
    "too_large": "payload_too_large",
    "unauthenticated": "unauthenticated",
    "not_found": "not_found",
    "unavailable": "unavailable",
}
NAMED = ("forbidden", "conflict", "limited")
# SPEC.md 12.
TABLE = {
    422: {"invalid_input", "personal_data_in_agent_memory"},
    413: {"payload_too_large"},
    401: {"unauthenticated"},
    403: {"scope_missing", "role_missing", "outreach_not_enabled", "subscription_inactive", "not_owner"},
    404: {"not_found"},
    405: {"method_not_allowed"},
    415: {"unsupported_media_type"},
    412: {"precondition_failed"},
    409: {
        *("conflict", "note_count_changed", "domain_full", "source_full"),
        *("already_decided", "outdated", "agent_memory_disabled"),
    },
    429: {"rate_limited", "daily_limit_reached"},
    503: {"unavailable"},
    500: {"internal_error"},
}


def raised() -> Iterator[tuple[str, str, str]]:
    """Give (code, enclosing function, place) of every refusal made in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for call in ast.walk(function):
                if not isinstance(call, ast.Call):
                    continue
                name = getattr(call.func, "id", getattr(call.func, "attr", ""))
                place = f"{path.relative_to(PACKAGE)}:{call.lineno}"
                if name in FIXED:
                    yield FIXED[name], function.name, place
                elif name in NAMED:
                    yield literal(call.args[0], place), function.name, place
                elif name == "MemoryCoreError" and path.name != "errors.py":
                    yield literal(call.args[1], place), function.name, place


def literal(node: ast.expr, place: str) -> str:
    assert isinstance(node, ast.Constant), f"{place}: a code that is not written out cannot be checked"
    code: str = node.value
    return code


def test_the_table_is_the_specification() -> None:
    assert dict(HTTP_STATUS) == {code: status for status, codes in TABLE.items() for code in codes}


def test_every_constructor_of_a_refusal_is_known_to_this_test() -> None:
    made = {
        name
        for name, value in vars(errors).items()
        if callable(value) and not isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert made == {*FIXED, *NAMED}


def test_every_code_that_is_raised_stands_in_the_table() -> None:
    found = list(raised())
    missing = [each for each in found if each[0] not in HTTP_STATUS]
    assert missing == []
    # The search itself works: it sees codes of every constructor, in several layers.
    assert {code for code, _, _ in found} >= {
        *("invalid_input", "payload_too_large", "unauthenticated", "role_missing", "not_found"),
        *("domain_full", "daily_limit_reached", "unavailable"),
    }
    assert len({place.split(":")[0] for _, _, place in found}) >= 10


def test_every_refusal_keeps_its_code_message_and_members() -> None:
    made = {
        "invalid_input": errors.invalid("title", "type", "must be a text", limit=3),
        "payload_too_large": errors.too_large("body", 10),
        "unauthenticated": errors.unauthenticated(),
        "scope_missing": errors.forbidden("scope_missing", "no", scope="export"),
        "not_found": errors.not_found("note"),
        "conflict": errors.conflict("conflict", "no", note_id="1"),
        "rate_limited": errors.limited("rate_limited", "later", 0),
        "unavailable": errors.unavailable("no model", cause="x"),
    }
    for code, error in made.items():
        fault = fault_json(error)
        assert list(fault)[:2] == ["code", "message"]
        assert (fault["code"], fault["message"]) == (code, error.message)
        assert {name: fault[name] for name in error.details} == error.details
    assert fault_json(made["rate_limited"])["retry_after_s"] == 1


def fails(text: str) -> NoReturn:
    """Raise what nobody foresaw, with content in its words, its cause and its notes."""
    error = RuntimeError(f"outer {text}")
    error.add_note(f"note {text}")
    raise error from KeyError(f"inner {text}")


def test_an_unexpected_exception_leaves_as_a_request_id_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(RuntimeError) as caught:
        fails("PLANTED-3c")
    with caplog.at_level(logging.DEBUG):
        fault = fault_json(caught.value)
    assert set(fault) == {"code", "message", "request_id"}
    assert fault["code"] == "internal_error"
    assert str(UUID(fault["request_id"])) == fault["request_id"]
    assert "PLANTED-3c" not in json.dumps(fault)
    # The log finds the place by that id, and quotes nothing either.
    assert fault["request_id"] in caplog.text
    assert "RuntimeError" in caplog.text
    assert "test_faults.py" in caplog.text
    assert "PLANTED-3c" not in caplog.text


def test_two_failures_have_two_request_ids() -> None:
    assert fault_json(ValueError())["request_id"] != fault_json(ValueError())["request_id"]


def test_a_refusal_with_an_unknown_code_cannot_leave() -> None:
    fault = fault_json(MemoryCoreError(Kind.CONFLICT, "new_code", "PLANTED", {"value": "PLANTED"}))
    assert fault["code"] == "internal_error"
    assert "PLANTED" not in json.dumps(fault)


@pytest.mark.parametrize(
    "tool",
    [
        *("outreach_recall_prospect_context", "outreach_save_prospect_research"),
        *("outreach_compact_prospect_context", "outreach_get_writing_guide"),
    ],
)
def test_a_failure_inside_a_tool_says_nothing_of_it(
    bench: Any, desk: Any, in_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """And the server answers the next call."""
    with in_process(build_server(lambda: bench, lambda: desk.key.text)) as agent:
        with monkeypatch.context() as broken:
            broken.setattr("memory_core.surfaces.mcp_server._answer", lambda *_: fails("PLANTED-3c"))
            result = agent.result(tool, {})
        text = result.model_dump_json()
        assert result.is_error
        assert json.loads(result.content[0].text)["code"] == "internal_error"
        assert "PLANTED-3c" not in text
        assert agent.refusal(tool, {})["code"] == "invalid_input"


def test_a_failure_inside_a_command_says_nothing_of_it(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.document("init")
    monkeypatch.setattr("memory_core.surfaces.cli.workbench", lambda: fails("PLANTED-3c"))
    fault = shell.fault("space", "list")
    assert fault["code"] == "internal_error"
    assert UUID(fault["request_id"])
    spoken = shell.run("space", "list")
    assert spoken.exit_code == 1
    assert fault["message"] in spoken.stderr
    assert "PLANTED-3c" not in json.dumps(fault) + spoken.output
