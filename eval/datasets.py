"""Labelled sets, read strictly: a row that is not right refuses the whole set, by file, line, field and rule.

A refusal never repeats what stood in the row.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import rfc8785

from memory_core.errors import MemoryCoreError, invalid

LABELS = ("duplicate", "updated", "overlap", "distinct")
_REQUIRED = ("a", "b", "label")
_OPTIONAL = ("lang_a", "lang_b", "source", "length", "kind", "id")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two texts and what a person said of them; `source`, `length` and `kind` only name slices."""

    pair_id: str
    a: str = field(repr=False)
    b: str = field(repr=False)
    label: str
    lang_a: str | None
    lang_b: str | None
    source: str
    length: str
    kind: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSet:
    """Pairs with the names of the files they came from and the digest of all that figures can depend on."""

    pairs: tuple[Pair, ...] = field(repr=False)
    files: tuple[str, ...]
    digest: str


def load_pairs(paths: Sequence[Path]) -> PairSet:
    """Read and join files of labelled pairs, in the order given.

    Raises `invalid_input` with `file`, `line`, `field` and `rule` at the first row that is not right.
    Extra columns are left alone.
    """
    pairs = tuple(pair for path in paths for pair in _pairs(path))
    return PairSet(pairs=pairs, files=tuple(path.name for path in paths), digest=digest_of(pairs))


def digest_of(pairs: Sequence[Pair]) -> str:
    """Hash what figures depend on, whatever the order of rows and files: SHA-256, hexadecimal.

    Ids are left out, since a renamed file would change those that were made from its name.
    """
    names = ("a", "b", "label", "lang_a", "lang_b", "source", "length", "kind")
    rows = sorted(rfc8785.dumps({name: getattr(pair, name) for name in names}) for pair in pairs)
    return sha256(b"\n".join(rows)).hexdigest()


def length_of(a: str, b: str) -> str:
    """Name the length of a pair by the words of its longer side: short, med from 60, long from 180."""
    words = max(len(a.split()), len(b.split()))
    return "short" if words < 60 else "med" if words < 180 else "long"


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give each row of a CSV (`.csv`) or JSON Lines (`.jsonl`) file with the number of its line, from 1.

    Blank lines are passed over. Raises `invalid_input` where the file is not UTF-8, holds no row, or a
    row is not one object.
    """
    kinds = {".csv": _csv_rows, ".jsonl": _json_rows}
    if path.suffix.lower() not in kinds:
        raise refused(path, None, "file", "suffix", "must end in .csv or .jsonl")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise refused(path, line, "file", "utf_8", "must be UTF-8") from None
    empty = True
    for line, row in kinds[path.suffix.lower()](path, text):
        empty = False
        yield line, row
    if empty:
        raise refused(path, None, "file", "empty", "must hold at least one row")


def refused(path: Path, line: int | None, name: str, rule: str, message: str) -> MemoryCoreError:
    """Make the refusal of a row: it names the file (without its folder), the line, the field and the rule."""
    place = path.name if line is None else f"{path.name} line {line}"
    where = {"file": path.name} if line is None else {"file": path.name, "line": line}
    return invalid(name, rule, f"{message} ({place}, rule {rule})", **where)


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    # Not splitlines(): JSON may hold U+2028 unescaped inside a string.
    for line, row in enumerate(text.split("\n"), start=1):
        if not row.strip():
            continue
        try:
            value = json.loads(row)
        except (ValueError, RecursionError):
            raise refused(path, line, "row", "json", "must be one JSON object") from None
        if not isinstance(value, dict):
            raise refused(path, line, "row", "json", "must be one JSON object")
        yield line, value


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error:
            raise refused(path, line, "row", "csv", "must be comma-separated, with quotes closed") from None
        if cells is None:
            return
        if not cells:
            continue
        if header is None:
            header = cells
            if len(set(header)) < len(header):
                raise refused(path, line, "header", "repeated", "must name each column once")
            continue
        if len(cells) != len(header):
            raise refused(path, line, "row", "columns", f"must have {len(header)} cells as the header has")
        # An empty cell is how a CSV says that an optional column has no value here.
        yield line, {name: cell for name, cell in zip(header, cells, strict=True) if cell != ""}


def _pairs(path: Path) -> Iterator[Pair]:
    for line, row in read_rows(path):
        texts = {name: _text(path, line, row, name) for name in _REQUIRED}
        names = {name: _name(path, line, row, name) for name in _OPTIONAL}
        if texts["label"] not in LABELS:
            raise refused(path, line, "label", "label", "must be one of " + ", ".join(LABELS))
        for name in ("lang_a", "lang_b"):
            if names[name] is not None and not _LANGUAGE.fullmatch(str(names[name])):
                raise refused(path, line, name, "language", "must be a language tag such as en or pt-BR")
        yield Pair(
            pair_id=names["id"] or f"{path.stem}:{line}",
            a=texts["a"],
            b=texts["b"],
            label=texts["label"],
            lang_a=names["lang_a"],
            lang_b=names["lang_b"],
            source=names["source"] or path.stem,
            length=names["length"] or length_of(texts["a"], texts["b"]),
            kind=names["kind"],
        )


def _text(path: Path, line: int, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        raise refused(path, line, name, "missing", "must be there")
    if not isinstance(value, str):
        raise refused(path, line, name, "type", "must be text")
    if not value.strip():
        raise refused(path, line, name, "empty", "must not be empty")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise refused(path, line, name, "characters", "must not hold half of a surrogate pair")
    return value


def _name(path: Path, line: int, row: Mapping[str, Any], name: str) -> str | None:
    if row.get(name) is None:
        return None
    value = _text(path, line, row, name)
    if len(value) > _MAX_NAME_CHARS or not value.isprintable():
        raise refused(path, line, name, "name", f"must be one line of at most {_MAX_NAME_CHARS} characters")
    return value


__all__ = ["LABELS", "Pair", "PairSet", "digest_of", "length_of", "load_pairs", "read_rows", "refused"]
