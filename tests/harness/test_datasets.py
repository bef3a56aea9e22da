"""Labelled pairs are read strictly: a refusal names file, line, field and rule, and no text."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from eval.datasets import length_of, load_pairs, read_rows
from memory_core.errors import MemoryCoreError
from memory_core.policy import LANGUAGES

FIXTURES = Path(__file__).parents[2] / "data" / "fixtures"
GOOD = {"a": "Secretword raised 4 million", "b": "Secretword raised 5 million", "label": "updated"}


def write_lines(folder: Path, *rows: object, name: str = "set.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_columns_that_are_absent_get_their_defaults(tmp_path: Path) -> None:
    (pair,) = load_pairs([write_lines(tmp_path, GOOD)]).pairs
    assert (pair.source, pair.length, pair.pair_id) == ("set", "short", "set:1")
    assert (pair.lang_a, pair.lang_b, pair.kind) == (None, None, None)


def test_length_counts_the_words_of_the_longer_side() -> None:
    assert [length_of("w " * n, "w") for n in (59, 60, 179, 180)] == ["short", "med", "med", "long"]
    assert length_of("w", "w " * 200) == "long"


def test_csv_and_json_lines_give_the_same_pairs_and_digest(tmp_path: Path) -> None:
    lines = write_lines(
        tmp_path, {**GOOD, "lang_a": "en", "source": "s"}, {**GOOD, "label": "distinct", "source": "s"}
    )
    table = tmp_path / "set.csv"
    table.write_text(
        "\ufefflabel,a,b,lang_a,source\r\n"
        f'updated,"{GOOD["a"]}",{GOOD["b"]},en,s\r\n\r\ndistinct,{GOOD["a"]},{GOOD["b"]},,s\r\n',
        encoding="utf-8",
    )
    first, second = load_pairs([lines]), load_pairs([table])
    assert [pair.label for pair in second.pairs] == ["updated", "distinct"]
    assert first.digest == second.digest


def test_csv_keeps_line_ends_inside_quotes(tmp_path: Path) -> None:
    table = tmp_path / "set.csv"
    table.write_text('a,b,label\n"- one\n- two\u2028three",b,distinct\nx,y,nonsense\n', encoding="utf-8")
    with pytest.raises(MemoryCoreError) as refusal:
        load_pairs([table])
    assert refusal.value.details["line"] == 4
    table.write_text('a,b,label\n"- one\n- two\u2028three",b,distinct\n', encoding="utf-8")
    assert load_pairs([table]).pairs[0].a == "- one\n- two\u2028three"


def test_several_files_are_joined_and_their_order_does_not_change_the_digest(tmp_path: Path) -> None:
    one = write_lines(tmp_path, GOOD, name="one.jsonl")
    two = write_lines(tmp_path, {**GOOD, "label": "overlap"}, name="two.jsonl")
    both = load_pairs([one, two])
    assert both.files == ("one.jsonl", "two.jsonl")
    assert [pair.source for pair in both.pairs] == ["one", "two"]
    assert both.digest == load_pairs([two, one]).digest
    assert both.digest != load_pairs([one]).digest


@pytest.mark.parametrize(
    ("row", "field", "rule"),
    [
        ({**GOOD, "label": "Secretword"}, "label", "label"),
        ({**GOOD, "label": "Duplicate"}, "label", "label"),
        ({"b": "x", "label": "distinct"}, "a", "missing"),
        ({**GOOD, "b": None}, "b", "missing"),
        ({**GOOD, "b": "  "}, "b", "empty"),
        ({**GOOD, "a": 5}, "a", "type"),
        ({**GOOD, "a": "half \ud83d"}, "a", "characters"),
        ({**GOOD, "lang_a": "English"}, "lang_a", "language"),
        ({**GOOD, "source": ["x"]}, "source", "type"),
        ({**GOOD, "kind": "two\nlines"}, "kind", "name"),
        (["a", "b"], "row", "json"),
        ("Secretword", "row", "json"),
    ],
)
def test_a_wrong_row_is_refused_by_file_line_field_and_rule(
    tmp_path: Path, row: object, field: str, rule: str
) -> None:
    with pytest.raises(MemoryCoreError) as refusal:
        load_pairs([write_lines(tmp_path, GOOD, row)])
    error = refusal.value
    assert error.code == "invalid_input"
    assert error.details == {"field": field, "rule": rule, "file": "set.jsonl", "line": 2}
    for word in ("set.jsonl", "line 2", field, rule):
        assert word in error.message
    assert "Secretword" not in error.message


@pytest.mark.parametrize(
    ("name", "content", "rule", "line"),
    [
        ("set.jsonl", b"", "empty", None),
        ("set.jsonl", b"\n\n", "empty", None),
        ("set.csv", b"a,b,label\n", "empty", None),
        ("set.jsonl", b'{"a": "x", "b": "y", "label": "distinct"}\n{"a": "\xe9"}\n', "utf_8", 2),
        ("set.jsonl", b"{'a': 1}\n", "json", 1),
        ("set.csv", b"a,b,label\nx,y\n", "columns", 2),
        ("set.csv", b"a,a,label\nx,y,distinct\n", "repeated", 1),
        ("set.csv", b'a,b,label\nx,"y,distinct\n', "csv", 2),
        ("set.txt", b"x", "suffix", None),
    ],
)
def test_a_wrong_file_is_refused(
    tmp_path: Path, name: str, content: bytes, rule: str, line: int | None
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MemoryCoreError) as refusal:
        load_pairs([path])
    assert refusal.value.details["rule"] == rule
    assert refusal.value.details.get("line") == line
    assert str(tmp_path) not in refusal.value.message


# -- the shipped pairs ----------------------------------------------------------------------------


def test_the_shipped_pairs_are_what_their_provenance_says() -> None:
    provenance = (FIXTURES / "PROVENANCE.md").read_text(encoding="utf-8")
    kinds = set(re.findall(r"^\| `([a-z_]+)` \|", provenance, re.MULTILINE))
    rows = [
        (path.stem, row)
        for path in sorted((FIXTURES / "overlap").glob("*.jsonl"))
        for _, row in read_rows(path)
    ]
    assert Counter(stem for stem, _ in rows) == {**dict.fromkeys(LANGUAGES, 34), "cross": 48}
    assert len({row["id"] for _, row in rows}) == len({(row["a"], row["b"]) for _, row in rows}) == 252
    for stem, row in rows:
        assert row["length"] == length_of(row["a"], row["b"]), row["id"]
        assert row["kind"] in kinds, row["id"]
        assert ";" not in row["company"], row["id"]
        assert (row["lang_a"] == row["lang_b"] == stem) or (
            stem == "cross" and row["lang_a"] != row["lang_b"]
        )
