"""What a settings proposal carries of an evaluation report: its figures and digests, never its texts."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, NoReturn

from memory_core.errors import invalid, too_large

MAX_REPORT_BYTES = 20_000_000
_MAX_FIGURES = 200
_MAX_FILES = 100
_HEX = re.compile(r"[0-9a-f]{40,64}")
_WORD = re.compile(r"[A-Za-z0-9@._+-]{1,100}")


def take_evidence(report: bytes) -> dict[str, Any]:
    """Read a report's JSON as `memory-core eval` writes it; `report_sha256` recognises the whole file later.

    Raises `invalid_input` for the field `evidence` (rules json, report), `payload_too_large` over 20 MB.
    """
    if len(report) > MAX_REPORT_BYTES:
        raise too_large("evidence", MAX_REPORT_BYTES)
    try:
        given = json.loads(report, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise invalid("evidence", "json", "must be an evaluation report in JSON") from None
    try:
        taken = _taken(given)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise invalid(
            "evidence", "report", "must be an evaluation report with kind, model and figures"
        ) from None
    return {**taken, "report_sha256": sha256(report).hexdigest()}


def _taken(report: Any) -> dict[str, Any]:
    data = report.get("data") or {}
    files = data.get("files") or []
    figures = [_figure(each) for each in report["figures"] if each["slice"] == "all"]
    known = report["kind"] is not None and report["model"] is not None
    if not known or not 1 <= len(figures) <= _MAX_FIGURES or len(files) > _MAX_FILES:
        raise ValueError
    return {
        "kind": _matching(_WORD, report["kind"]),
        "model": _matching(_WORD, report["model"]),
        "data": {
            "digest": _matching(_HEX, data.get("digest")),
            # A name with other characters could be anybody's text; the digest tells the data anyway.
            "files": [name for name in files if _WORD.fullmatch(name)],
            "rows": None if data.get("rows") is None else int(data["rows"]),
        },
        "policy_digest": _matching(_HEX, report.get("policy_digest")),
        "version": _matching(_WORD, report.get("version")),
        "commit": _matching(_HEX, report.get("commit")),
        "tuned": {
            _matching(_WORD, name): _numbers(value)
            for name, value in (report.get("tuned") or {}).items()
            if value is not None
        },
        "figures": figures,
    }


def _figure(figure: Any) -> dict[str, Any]:
    return {
        "name": _matching(_WORD, figure["name"]),
        "slice": "all",
        **_numbers(figure),
        "n": int(figure["n"]),
    }


def _numbers(row: Any) -> dict[str, float]:
    return {name: _number(row[name]) for name in ("value", "low", "high") if row.get(name) is not None}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _matching(pattern: re.Pattern[str], value: Any) -> Any:
    """Take a word, or nothing; a text that is neither could be anybody's and is not kept."""
    if value is not None and not pattern.fullmatch(value):
        raise ValueError
    return value


def _no_number(_: str) -> NoReturn:
    raise ValueError
