"""Rows of an import: what is read, what is refused, and that a refusal takes no neighbour with it."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.formats.rows import MAX_ROW_BYTES, read_rows, size

Read = list[tuple[int, Any]]


def written(tmp_path: Path, name: str, content: bytes | str) -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, **options: Any) -> Read:
    """Read all rows; a refusal is shown as its rule."""
    return [
        (number, row.details["rule"] if isinstance(row, MemoryCoreError) else dict(row))
        for number, row in read_rows(path, **options)
    ]


def refusal_of_file(path: Path, **options: Any) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        read(path, **options)
    assert caught.value.code == "invalid_input"
    assert caught.value.details["field"] == "file"
    return caught.value


class TestCsv:
    def test_rows_carry_the_number_of_their_first_line(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", 'a,b\n1,"two\nlines, one cell"\n\n,\n3,4\n')
        assert read(path) == [(2, {"a": "1", "b": "two\nlines, one cell"}), (6, {"a": "3", "b": "4"})]

    def test_a_byte_order_mark_and_windows_line_ends_are_no_content(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.CSV", b"\xef\xbb\xbfa,b\r\n1,2\r\n")
        assert read(path) == [(2, {"a": "1", "b": "2"})]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_the_header_shows_the_delimiter(self, tmp_path: Path, delimiter: str) -> None:
        path = written(tmp_path, "a.csv", f'a{delimiter}b\n1{delimiter}"x,y;z"\n')
        assert read(path) == [(2, {"a": "1", "b": "x,y;z"})]

    def test_a_line_that_is_not_utf8_is_refused_by_number_and_the_rest_is_read(self, tmp_path: Path) -> None:
        content = 'a,b\n1,ok\n2,"café\nau lait"\n3,ok\n'.encode("latin-1")
        path = written(tmp_path, "a.csv", content)
        rows = list(read_rows(path))
        refusal = rows[1][1]
        assert isinstance(refusal, MemoryCoreError)
        assert refusal.details == {"field": "file", "rule": "encoding", "line": 3}
        assert "line 3" in refusal.message
        assert "caf" not in refusal.message
        assert [number for number, _ in rows] == [2, 3, 5]
        assert rows[2][1] == {"a": "3", "b": "ok"}

    def test_another_encoding_is_refused_at_the_header(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", "a,b\n1,2\n".encode("utf-16"))
        assert refusal_of_file(path).details["rule"] == "encoding"

    def test_a_row_of_another_width_is_refused(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", "a,b\n1\n1,2,3\n1,2\n")
        assert read(path) == [(2, "columns"), (3, "columns"), (4, {"a": "1", "b": "2"})]

    def test_a_nul_byte_refuses_its_row(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", "a,b\n1,x\0y\n3,4\n")
        assert read(path) == [(2, "characters"), (3, {"a": "3", "b": "4"})]

    def test_broken_quotes_refuse_their_row_and_name_how_far_it_went(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", 'a,b\n1,"x"y\n3,4\n5,"open\n6,7\n')
        rows = list(read_rows(path))
        assert rows[1] == (3, {"a": "3", "b": "4"})
        refusals = [row.details for _, row in (rows[0], rows[2]) if isinstance(row, MemoryCoreError)]
        assert [(details["rule"], details["line"], details["last_line"]) for details in refusals] == [
            ("csv", 2, 2),
            ("csv", 4, 5),
        ]

    def test_a_column_that_is_not_known_refuses_the_file_by_its_name(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", "a,mood\n1,2\n")
        assert read(path, columns={"a", "mood"}) == [(2, {"a": "1", "mood": "2"})]
        refusal = refusal_of_file(path, columns={"a", "b"})
        assert refusal.details["rule"] == "column"
        assert refusal.details["column"] == "mood"

    def test_a_file_without_a_header_is_refused_without_repeating_its_content(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.csv", "jo@acme.dev,2\n")
        refusal = refusal_of_file(path, columns={"a", "b"})
        assert refusal.details["column"] == "column 1"
        assert "acme" not in f"{refusal.message}{refusal.details}"

    @pytest.mark.parametrize("content", ["", "\n1,2\n", ",\n1,2\n", 'a,"b\n1,2\n'])
    def test_a_header_must_name_the_columns(self, tmp_path: Path, content: str) -> None:
        assert refusal_of_file(written(tmp_path, "a.csv", content)).details["rule"] == "header"

    def test_a_column_stands_once(self, tmp_path: Path) -> None:
        assert refusal_of_file(written(tmp_path, "a.csv", "a,b,a\n1,2,3\n")).details["column"] == "a"

    def test_a_record_over_the_limit_is_refused_whatever_number_of_lines_it_has(self, tmp_path: Path) -> None:
        one_line = "x" * (MAX_ROW_BYTES + 1)
        many_lines = '"' + '\n","' * (MAX_ROW_BYTES // 4 + 1) + '"'
        path = written(tmp_path, "a.csv", f"a,b\n{one_line},2\n3,4\n{many_lines}\n")
        rows = read(path)
        assert rows[:2] == [(2, "max_bytes"), (3, {"a": "3", "b": "4"})]
        assert rows[2] == (4, "max_bytes")


class TestJsonLines:
    @pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.JSONL"])
    def test_each_line_is_a_row(self, tmp_path: Path, name: str) -> None:
        path = written(tmp_path, name, b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": null, "b": ["\xc3\xa9"]}')
        assert read(path) == [(1, {"a": 1}), (4, {"a": None, "b": ["é"]})]

    @pytest.mark.parametrize(
        ("line", "rule"),
        [
            (b'{"a": ', "json"),
            (b'{"a": 1} {"a": 2}', "json"),
            (b'{"a": NaN}', "json"),
            (b'{"a": 1, "a": 2}', "json"),
            (b'{"a": "x\0y"}', "json"),
            (b'{"a": ' + b"9" * 5_000 + b"}", "json"),
            (b"[" * 200_000, "json"),
            (b'["a"]', "object"),
            (b"null", "object"),
            ('{"a": "é"}'.encode("latin-1"), "encoding"),
            (b'{"a": "' + b"x" * MAX_ROW_BYTES + b'"}', "max_bytes"),
        ],
    )
    def test_a_line_that_is_no_object_is_refused_alone(self, tmp_path: Path, line: bytes, rule: str) -> None:
        path = written(tmp_path, "a.jsonl", b'{"a": 1}\n' + line + b'\n{"a": 3}\n')
        assert read(path) == [(1, {"a": 1}), (2, rule), (3, {"a": 3})]

    def test_a_refusal_quotes_nothing_of_the_line(self, tmp_path: Path) -> None:
        path = written(tmp_path, "a.jsonl", '{"secret-word": secret-word}\n')
        [(_, refusal)] = read_rows(path)
        assert isinstance(refusal, MemoryCoreError)
        assert "secret" not in f"{refusal.message}{refusal.details}{refusal.__cause__}"

    def test_a_row_of_exactly_the_limit_is_read(self, tmp_path: Path) -> None:
        line = json.dumps({"a": "x" * (MAX_ROW_BYTES - 10)}) + "\n"
        assert len(line) == MAX_ROW_BYTES
        assert [number for number, row in read(written(tmp_path, "a.jsonl", line)) if row != "max_bytes"] == [
            1
        ]


class TestFile:
    def test_another_ending_is_refused(self, tmp_path: Path) -> None:
        assert refusal_of_file(written(tmp_path, "a.xlsx", "a,b\n")).details["rule"] == "suffix"

    def test_a_file_that_cannot_be_read_is_refused_without_its_path(self, tmp_path: Path) -> None:
        refusal = refusal_of_file(tmp_path / "none.csv")
        assert refusal.details == {"field": "file", "rule": "readable", "cause": "ENOENT"}
        assert str(tmp_path) not in refusal.message
        with pytest.raises(MemoryCoreError, match="cannot be read"):
            size(tmp_path / "none.csv")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", b'a,b\n1,"two\nlines"\n\n\xff,2\n' + b"x" * (MAX_ROW_BYTES + 7)),
            ("a.jsonl", b'{"a": 1}\nbroken\n\n' + b"x" * (MAX_ROW_BYTES + 7) + b"\n{}"),
        ],
    )
    def test_progress_counts_every_byte_once(self, tmp_path: Path, name: str, content: bytes) -> None:
        path = written(tmp_path, name, content)
        steps: list[int] = []
        read(path, advanced=steps.append)
        assert sum(steps) == size(path) == len(content)

    def test_a_large_file_is_streamed(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        with path.open("w") as file:
            file.write("a,b\n")
            file.writelines(f"{number},{'x' * 200}\n" for number in range(100_000))
        tracemalloc.start()
        count = sum(1 for _ in read_rows(path))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 100_000
        assert peak < 1_000_000
