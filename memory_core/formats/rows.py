"""Rows of an import, streamed from CSV or JSON Lines: each with its line number, or the refusal it earned.

A row is given whole or refused whole, and a refusal takes no neighbour with it. Memory stays within one row,
whatever the file holds.
"""

from __future__ import annotations

import csv
import errno
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from memory_core.errors import MemoryCoreError, invalid

# A merged note may cite thousands of pages; everything else is far smaller.
MAX_ROW_BYTES = 16 * 1_048_576

_BOM = b"\xef\xbb\xbf"
_CHUNK_BYTES = 65_536
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_COLUMN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")

Row = Mapping[str, Any] | MemoryCoreError


def read_rows(
    path: Path,
    *,
    columns: Collection[str] | None = None,
    advanced: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, Row]]:
    """Give each row with the number of its first line (from 1); blank rows are skipped.

    The name's ending decides: `.csv` (a header; comma, semicolon or tab), or `.jsonl`, `.ndjson`, `.json`
    (one object a line). `columns` are the only ones a CSV header may name. `advanced` gets the bytes read
    since its last call; their sum is `size(path)`. Raises `invalid_input` for what concerns the whole file:
    its name, its header, its being unreadable.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".jsonl", ".ndjson", ".json"):
        raise invalid("file", "suffix", "give a .csv, .jsonl, .ndjson or .json file")
    try:
        with path.open("rb") as file:
            lines = _Lines(file, advanced or (lambda _: None))
            yield from _csv_rows(lines, columns) if suffix == ".csv" else _json_rows(lines)
    except OSError as error:
        raise _unreadable(error) from None


def size(path: Path) -> int:
    """Give the file's bytes, for a progress bar."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise _unreadable(error) from None


class _Lines(Iterator[str]):
    """Lines of a file with their ends; a byte that is no UTF-8 becomes a lone surrogate.

    So a wrong byte moves no bounds of records. Goes on after refusing a line, which a generator could not.
    """

    def __init__(self, file: BinaryIO, advanced: Callable[[int], None]) -> None:
        self.number = 0
        self._file = file
        self._advanced = advanced
        self._row_bytes = 0

    def start_row(self) -> None:
        """Count the limit of a row from the next line on."""
        self._row_bytes = 0

    def __next__(self) -> str:
        line = self._file.readline(MAX_ROW_BYTES + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._advanced(len(line))
        self._row_bytes += len(line)
        if self._row_bytes > MAX_ROW_BYTES:
            while line and not line.endswith(b"\n"):
                line = self._file.readline(_CHUNK_BYTES)
                self._advanced(len(line))
            raise _refused(self.number, "max_bytes", f"is over {MAX_ROW_BYTES} bytes", limit=MAX_ROW_BYTES)
        if self.number == 1:
            line = line.removeprefix(_BOM)
        return line.decode("utf-8", "surrogateescape")


def _json_rows(lines: _Lines) -> Iterator[tuple[int, Row]]:
    while True:
        lines.start_row()
        try:
            line = next(lines)
            if line.strip():
                yield lines.number, _json_row(line, lines.number)
        except StopIteration:
            return
        except MemoryCoreError as refusal:
            yield lines.number, refusal


def _json_row(line: str, number: int) -> Mapping[str, Any]:
    _check_encoding(line, number)
    try:
        row = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        # The parser's own words quote the line.
        raise _refused(number, "json", "is not one JSON value") from None
    if not isinstance(row, dict):
        raise _refused(number, "object", "is not a JSON object; give one object a line")
    return row


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a name twice")
    return row


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


def _csv_rows(lines: _Lines, columns: Collection[str] | None) -> Iterator[tuple[int, Row]]:
    header, delimiter = _header(lines, columns)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.start_row()
        first = lines.number + 1
        try:
            cells = next(reader)
            if any(cell.strip() for cell in cells):
                yield first, _csv_row(header, cells, first)
        except StopIteration:
            return
        except csv.Error:
            yield first, _refused(first, "csv", "is no CSV record", last_line=lines.number)
        except MemoryCoreError as refusal:
            yield first, refusal


def _csv_row(header: list[str], cells: list[str], number: int) -> Mapping[str, Any]:
    for cell in cells:
        _check_encoding(cell, number)
        if "\0" in cell:
            raise _refused(number, "characters", "holds a NUL byte")
    if len(cells) != len(header):
        raise _refused(number, "columns", f"has {len(cells)} cells under {len(header)} columns")
    return dict(zip(header, cells, strict=True))


def _header(lines: _Lines, columns: Collection[str] | None) -> tuple[list[str], str]:
    line = next(lines, "")
    _check_encoding(line, lines.number)
    # Spreadsheets write semicolons where the comma is the decimal sign; `max` takes the comma on a tie.
    delimiter = max(",;\t", key=line.count)
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    except csv.Error:
        names = []
    if not any(names):
        raise invalid("file", "header", "line 1 must name the columns")
    for position, name in enumerate(names, start=1):
        # A file without a header shows content here: only what looks like a name is repeated.
        shown = name if _COLUMN_NAME.fullmatch(name) else f"column {position}"
        if columns is not None and name not in columns:
            raise invalid(
                "file", "column", f"{shown} is not one of: {', '.join(sorted(columns))}", column=shown
            )
        if name in names[: position - 1]:
            raise invalid("file", "column", f"{shown} stands twice in the header", column=shown)
    return names, delimiter


def _check_encoding(text: str, number: int) -> None:
    if _ESCAPED_BYTE.search(text):
        raise _refused(number, "encoding", "is not UTF-8; save the file as UTF-8")


def _refused(number: int, rule: str, message: str, **details: Any) -> MemoryCoreError:
    return invalid("file", rule, f"line {number} {message}", line=number, **details)


def _unreadable(error: OSError) -> MemoryCoreError:
    # Its own words hold the path.
    return invalid("file", "readable", "cannot be read", cause=errno.errorcode.get(error.errno or 0, ""))


__all__ = ["MAX_ROW_BYTES", "Row", "read_rows", "size"]
