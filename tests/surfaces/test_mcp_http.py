"""The prospect memory over MCP and streamable HTTP: many clients, each with its own key, in one process."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

RECALL = "outreach_recall_prospect_context"
SAVE = "outreach_save_prospect_research"
HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2025-06-18",
}


@dataclass(frozen=True)
class House:
    """One running server and the two spaces that it serves."""

    url: str
    one: Any
    two: Any
    errors: Path

    def post(self, content: str, key: str | None, **headers: str) -> httpx2.Response:
        sent = {**HEADERS, **headers}
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        return httpx2.post(self.url, content=content.encode(), headers=sent, timeout=60)


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, make_office: Callable[..., Any], http_server: Callable[..., Any]
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("http")
    one, two = make_office(folder / "home", "Halden"), make_office(folder / "home", "Other")
    errors = folder / "errors.txt"
    with http_server(folder / "home", errors) as url:
        yield House(url=url, one=one, two=two, errors=errors)


def request(tool: str, arguments: str) -> str:
    parameters = f'{{"name":"{tool}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{parameters}}}'


def fault_of(response: httpx2.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert result["isError"] is True
    fault: dict[str, Any] = json.loads(result["content"][0]["text"])
    return fault


# -- keys -----------------------------------------------------------------------------------------


def test_without_a_key_nothing_is_served(house: House) -> None:
    for method in ("tools/list", "tools/call", "initialize", "prompts/list"):
        response = house.post(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}', None)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json() == {
            "code": "unauthenticated",
            "message": "the key is missing, unknown, expired or revoked",
        }


@pytest.mark.parametrize("change", ["Basic KEY", "KEY", "Bearer", "BearerKEY", "Bearer KEY KEY"])
def test_a_key_is_a_key_only_as_a_bearer_token(house: House, change: str) -> None:
    content = request(RECALL, '{"domain":"kelva.dev"}')
    sent = change.replace("KEY", house.one.key)
    assert house.post(content, None, authorization=sent).status_code == 401
    assert house.post(content, None, authorization=f"bearer  {house.one.key}").status_code == 200


@pytest.mark.parametrize("change", ["secret", "key id", "space id", "prefix", "text", "blanks"])
def test_a_wrong_key_is_refused_in_the_same_words_whatever_is_wrong(house: House, change: str) -> None:
    prefix, space, key, secret = house.one.key.split("_", 3)
    other = house.two.key.split("_", 3)
    wrong = {
        "secret": f"{prefix}_{space}_{key}_{other[3]}",
        "key id": f"{prefix}_{space}_{other[2]}_{secret}",
        "space id": f"{prefix}_{other[1]}_{key}_{secret}",
        "prefix": f"abc_{space}_{key}_{secret}",
        "text": "nonsense",
        "blanks": "___",
    }[change]
    response = house.post(request(RECALL, '{"domain":"kelva.dev"}'), wrong)
    without = house.post(request(RECALL, '{"domain":"kelva.dev"}'), None)
    assert (response.status_code, response.content) == (401, without.content)


def test_a_key_in_the_address_is_no_key(house: House) -> None:
    response = httpx2.post(
        f"{house.url}?access_token={house.one.key}",
        content=request(RECALL, "{}"),
        headers=HEADERS,
        timeout=60,
    )
    assert response.status_code == 401


def test_case_056_no_call_inherits_the_key_of_the_one_before(house: House) -> None:
    """In every order: a call without a key is refused right after one with a key, and the other way round."""
    content = request(RECALL, '{"domain":"kelva.dev"}')
    keys = [None, house.one.key, None, house.two.key, "nonsense", house.one.key, None]
    with httpx2.Client(timeout=60) as kept_open:
        statuses = [
            kept_open.post(
                house.url,
                content=content,
                headers=HEADERS if key is None else {**HEADERS, "authorization": f"Bearer {key}"},
            ).status_code
            for key in keys
        ]
    assert statuses == [401, 200, 401, 200, 401, 200, 401]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_case_055_two_keys_at_once_see_only_their_own_space(
    house: House, over_http: Callable[..., Any], finding: Callable[..., Any], mode: str
) -> None:
    """2 spaces x 25 saves through one process, interleaved: no note, duplicate or source hint crosses."""
    domain = f"crossing-{mode}.dev"
    with (
        over_http(house.url, house.one.key, mode=mode) as one,
        over_http(house.url, house.two.key, mode=mode) as two,
    ):
        spaces = {"one": one, "two": two}

        def save(number: int) -> dict[str, Any]:
            name = ("one", "two")[number % 2]
            answer: dict[str, Any] = spaces[name].answer(
                SAVE, finding(f"Fact {number} of space {name}.", domain=domain)
            )
            return answer

        with ThreadPoolExecutor(8) as callers:
            saved = list(callers.map(save, range(50)))
        recalled = {name: speaking.answer(RECALL, {"domain": domain}) for name, speaking in spaces.items()}
    ids = {name: {note["note_id"] for note in recalled[name]["notes"]} for name in recalled}
    for number, name in enumerate(["one", "two"]):
        bodies = {note["body"] for note in recalled[name]["notes"]}
        assert bodies == {f"Fact {each} of space {name}." for each in range(number, 50, 2)}
        assert recalled[name]["note_count"] == 25
        for answer in saved[number::2]:
            lists = ("near_duplicates", "overlaps", "shared_sources")
            named = {entry["note_id"] for which in lists for entry in answer["overlap"][which]}
            assert named <= ids[name]
    assert ids["one"].isdisjoint(ids["two"])


def test_case_053_a_note_of_another_space_is_no_duplicate_and_no_shared_source(
    house: House, over_http: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    with over_http(house.url, house.one.key) as one, over_http(house.url, house.two.key) as two:
        mine = one.answer(SAVE, finding(domain="hint.dev", idempotency_key="same"))
        theirs = two.answer(SAVE, finding(domain="hint.dev", idempotency_key="same"))
        ids = [mine["note"]["note_id"], theirs["note"]["note_id"]]
        two.answer(SAVE, finding("Another fact.", domain="hint.dev"))
        crossing = two.refusal(
            "outreach_compact_prospect_context",
            {"domain": "hint.dev", "note_ids": ids, "body": "Both.", "expected_note_count": 2},
        )
    assert theirs["repeated"] is False
    assert [theirs["overlap"][name] for name in ("near_duplicates", "overlaps", "shared_sources")] == [
        [],
        [],
        [],
    ]
    assert (theirs["note_count"], theirs["overlap"]["not_compared"]) == (1, 0)
    assert crossing["code"] == "not_found"


def test_a_key_revoked_on_the_command_line_ends_with_the_next_request(
    house: House, make_office: Callable[..., Any], program: Callable[..., Any]
) -> None:
    office = make_office(house.one.home, "Short-lived")
    content = request(RECALL, '{"domain":"kelva.dev"}')
    assert house.post(content, office.key).status_code == 200
    listed = json.loads(program(office.home, ["key", "list", "--space", office.space_id, "--json"]).stdout)
    [key_id] = [key["key_id"] for key in listed["keys"] if key["source_id"]]
    assert program(office.home, ["key", "revoke", key_id]).returncode == 0
    assert house.post(content, office.key).status_code == 401


def test_a_space_that_was_destroyed_has_no_keys(
    house: House, make_office: Callable[..., Any], program: Callable[..., Any]
) -> None:
    office = make_office(house.one.home, "Doomed")
    assert program(office.home, ["space", "destroy", office.space_id, "--yes"]).returncode == 0
    assert house.post(request(RECALL, '{"domain":"kelva.dev"}'), office.key).status_code == 401


# -- the transport --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tools_and_the_prompt_are_those_of_stdio(
    house: House, over_http: Callable[..., Any], over_stdio: Callable[..., Any], mode: str
) -> None:
    def shown(speaking: Any) -> list[Any]:
        arguments = {"campaign": "Spring", "language": "fr"}
        return [
            speaking.client.instructions,
            speaking.ask(speaking.client.list_tools).tools,
            speaking.ask(speaking.client.list_prompts).prompts,
            speaking.ask(speaking.client.get_prompt, "daily_research_pass", arguments).messages,
        ]

    with (
        over_http(house.url, house.one.key, mode=mode) as remote,
        over_stdio(house.one.home, house.one.key, mode=mode) as local,
    ):
        assert shown(remote) == shown(local)


def test_case_113_a_lone_surrogate_is_answered_with_4xx_and_the_server_lives_on(house: House) -> None:
    for escape in (r"\ud83d", r"\ude00", r"\ude00\ud83d"):
        broken = request(RECALL, f'{{"domain":"kelva.dev","focus":"deal closed {escape}"}}')
        response = house.post(broken, house.one.key)
        assert 400 <= response.status_code < 500
        assert "deal closed" not in response.text
    assert house.post(request(RECALL, '{"domain":"kelva.dev"}'), house.one.key).status_code == 200


@pytest.mark.parametrize("content", ["", "not json", "{}", "[" * 100_000, '{"jsonrpc":"2.0"}'])
def test_what_is_no_message_is_answered_with_4xx(house: House, content: str) -> None:
    assert 400 <= house.post(content, house.one.key).status_code < 500


@pytest.mark.parametrize("key", [None, "mwk_wrong"])
@pytest.mark.parametrize("mebibytes", [1, 8])
def test_a_request_over_1_mib_is_too_large_whatever_its_key(
    house: House, mebibytes: int, key: str | None
) -> None:
    content = request(RECALL, json.dumps({"domain": "kelva.dev", "focus": "x" * mebibytes * 1024 * 1024}))
    for each in (key, house.one.key):
        response = house.post(content, each)
        assert response.status_code == 413
        assert (response.json()["code"], response.json()["field"]) == ("payload_too_large", "request")


@pytest.mark.parametrize("key", [None, "mwk_wrong"])
def test_a_streamed_request_is_too_large_as_soon_as_it_is_over_whatever_its_key(
    house: House, key: str | None
) -> None:
    """Sent in pieces, with no length told beforehand; one that fits is served."""

    def send(piece: str, times: int, key: str | None) -> httpx2.Response:
        start, end = request(RECALL, '{"domain":"kelva.dev","focus":"CUT"}').split("CUT")
        headers = HEADERS if key is None else {**HEADERS, "authorization": f"Bearer {key}"}
        pieces = (each.encode() for each in [start, *([piece] * times), end])
        sent = httpx2.post(house.url, content=pieces, headers=headers, timeout=60)
        assert "content-length" not in sent.request.headers
        return sent

    for each in (key, house.one.key):
        response = send("x" * 65_536, 17, each)
        assert response.status_code == 413
        assert (response.json()["code"], response.json()["field"]) == ("payload_too_large", "request")
    assert send("x", 40, key).status_code == 401
    assert "error" not in send("x", 40, house.one.key).json()


def test_a_request_of_just_1_mib_is_let_through_and_one_byte_more_is_not(house: House) -> None:
    content = request(RECALL, '{"domain":"kelva.dev"}').ljust(1024 * 1024)
    assert house.post(content, None).status_code == 401
    assert house.post(content, house.one.key).status_code == 200
    assert house.post(content + " ", house.one.key).status_code == 413


def test_a_caller_that_hangs_up_in_the_middle_of_a_request_leaves_the_server_quiet(house: House) -> None:
    before = house.errors.read_bytes()
    address = ("127.0.0.1", int(house.url.removesuffix("/mcp").rsplit(":", 1)[1]))
    with socket.create_connection(address, timeout=60) as hanging:
        hanging.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nabc")
    assert house.post(request(RECALL, '{"domain":"kelva.dev"}'), house.one.key).status_code == 200
    assert house.errors.read_bytes() == before


@pytest.mark.parametrize("header", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_another_host_or_origin_is_turned_away(house: House, header: dict[str, str]) -> None:
    """A web page that rebinds its name to this machine reaches nothing, even with a key."""
    response = house.post(request(RECALL, '{"domain":"kelva.dev"}'), house.one.key, **header)
    assert 400 <= response.status_code < 500
    assert "data" not in response.text


def test_there_is_no_plain_route_to_this_memory(house: House) -> None:
    root = house.url.removesuffix("/mcp")
    headers = {"authorization": f"Bearer {house.one.key}"}
    for path in (
        "/",
        "/docs",
        "/openapi.json",
        "/v1/prospects/kelva.dev",
        "/prospects",
        "/token",
        "/register",
    ):
        assert httpx2.get(root + path, headers=headers, timeout=60).status_code == 404


def test_a_key_lacking_the_scope_is_refused_by_the_tool(house: House, program: Callable[..., Any]) -> None:
    office = house.one
    made = json.loads(
        program(
            office.home,
            [
                *("key", "create", "--source", office.source_id, "--owner", office.owner_id),
                *("--scope", "outreach_read", "--json"),
            ],
        ).stdout
    )
    arguments = {
        "domain": "kelva.dev",
        "body": "x",
        "source_urls": ["https://a.dev"],
        "observed_at": "2024-05-01",
    }
    fault = fault_of(house.post(request(SAVE, json.dumps(arguments)), made["key"]))
    assert (fault["code"], fault["scope"]) == ("scope_missing", "outreach_write")


def test_the_address_is_told_on_one_line(
    office: Any, http_server: Callable[..., Any], tmp_path: Path
) -> None:
    errors = tmp_path / "errors.txt"
    with http_server(office.home, errors) as url:
        # What answers has told its address before.
        assert httpx2.get(url, timeout=60).status_code == 401
        assert errors.read_text().splitlines()[-1] == f"listening on {url}"
        assert errors.read_text().count("listening on") == 1


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_port_that_another_program_holds_is_refused_in_one_line(
    office: Any, program: Callable[..., Any], host: str, family: socket.AddressFamily
) -> None:
    with socket.create_server((host, 0), family=family) as holder:
        port = holder.getsockname()[1]
        ended = program(office.home, ["mcp", "--http", "--host", host, "--port", str(port)])
    assert (ended.returncode, ended.stdout) == (1, "")
    last = ended.stderr.splitlines()[-1]
    assert last == f"error: port {port} cannot be served: Address already in use (unavailable)"
    assert "Traceback" not in ended.stderr
    assert "listening" not in ended.stderr


def test_case_079_no_key_and_no_text_is_left_on_stderr(
    tmp_path: Path, office: Any, http_server: Callable[..., Any]
) -> None:
    """After 200, 401, 4xx and a refusal of every kind that quotes what was sent."""
    errors, planted = tmp_path / "errors.txt", "PLANTED-5d20"
    with http_server(office.home, errors) as url:
        house = House(url=url, one=office, two=office, errors=errors)
        good = {
            "domain": "kelva.dev",
            "body": planted,
            "source_urls": [f"https://a.dev/?q={planted}"],
            "observed_at": "2024-05-01",
            "title": planted,
        }
        assert house.post(request(SAVE, json.dumps(good)), office.key).status_code == 200
        assert house.post(request(SAVE, json.dumps(good)), f"{planted}-key").status_code == 401
        for change in (
            {"body": f"{planted}\x00"},
            {"domain": planted},
            {"observed_at": planted},
            {planted: 1},
        ):
            fault = fault_of(house.post(request(SAVE, json.dumps({**good, **change})), office.key))
            assert planted not in json.dumps(fault)
        house.post(f"{planted} is no message", office.key)
        house.post(request(SAVE, f'{{"body":"{planted} \\ud83d"}}'), office.key)
        house.post(request(planted, "{}"), office.key)
    seen = errors.read_bytes() + office.files()
    for secret in (planted, office.key, office.key.rsplit("_", 1)[1]):
        assert secret.encode() not in seen
