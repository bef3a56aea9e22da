"""The one table of error codes: how a refusal looks on every surface.

A code that is not in the table cannot leave the program; an exception that is no refusal becomes `internal_error` with
a request id and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from memory_core.errors import MemoryCoreError

logger = logging.getLogger("memory_core")

HTTP_STATUS: Mapping[str, int] = MappingProxyType(
    {
        "invalid_input": 422,
        "personal_data_in_agent_memory": 422,
        "payload_too_large": 413,
        "unauthenticated": 401,
        "scope_missing": 403,
        "role_missing": 403,
        "outreach_not_enabled": 403,
        "subscription_inactive": 403,
        "not_owner": 403,
        "not_found": 404,
        "method_not_allowed": 405,
        "unsupported_media_type": 415,
        "precondition_failed": 412,
        "conflict": 409,
        "note_count_changed": 409,
        "domain_full": 409,
        "source_full": 409,
        "already_decided": 409,
        "outdated": 409,
        "agent_memory_disabled": 409,
        "rate_limited": 429,
        "daily_limit_reached": 429,
        "unavailable": 503,
        "internal_error": 500,
    }
)


def fault_json(error: Exception) -> dict[str, Any]:
    """Give the object that a surface sends for a refusal: `code`, `message` and the code's own members."""
    if isinstance(error, MemoryCoreError) and error.code in HTTP_STATUS:
        return {"code": error.code, "message": error.message, **error.details}
    request_id = str(uuid4())
    # Only the place is logged: an unexpected exception's own words may quote content.
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "unknown place"
    logger.error("internal error %s: %s at %s", request_id, type(error).__name__, where)
    return {
        "code": "internal_error",
        "message": "something failed inside; the log names the request id",
        "request_id": request_id,
    }
