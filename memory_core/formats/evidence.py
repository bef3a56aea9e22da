"""What a settings proposal carries of an evaluation report: its figures and digests, never its texts."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from memory_core.errors import invalid, too_large

MAX_REPORT_BYTES = 20_000_000
_MAX_FIGURES = 200
_AS_GIVEN = ("policy_digest", "version", "commit", "tuned")


def take_evidence(report: bytes) -> dict[str, Any]:
    """Read a report's JSON as `memory-core eval` writes it; `report_sha256` recognises the whole file later.

    Raises `invalid_input` for the field `evidence` (rules json, report), `payload_too_large` over 20 MB.
    """
    if len(report) > MAX_REPORT_BYTES:
        raise too_large("evidence", MAX_REPORT_BYTES)
    try:
        given = json.loads(report)
        kind, model, data = given["kind"], given["model"], given.get("data") or {}
        figures = [_figure(each) for each in given["figures"] if each["slice"] == "all"]
        whole = isinstance(kind, str) and isinstance(model, str)
        taken = {name: given.get(name) for name in _AS_GIVEN}
        measured_on = {name: data.get(name) for name in ("digest", "files", "rows")}
    except ValueError:
        raise invalid("evidence", "json", "must be an evaluation report in JSON") from None
    except (KeyError, TypeError, AttributeError):
        whole, figures = False, []
    if not whole or not 1 <= len(figures) <= _MAX_FIGURES:
        raise invalid("evidence", "report", "must be an evaluation report with kind, model and figures")
    return {
        "kind": kind,
        "model": model,
        "data": measured_on,
        **taken,
        "figures": figures,
        "report_sha256": sha256(report).hexdigest(),
    }


def _figure(figure: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: float(figure[name]) for name in ("value", "low", "high") if figure.get(name) is not None}
    return {"name": str(figure["name"]), "slice": "all", **numbers, "n": int(figure["n"])}
