"""Every threshold and limit of the product, as one frozen value with a digest.

A space changes only the settings listed in `SETTINGS`; every other number is the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from zoneinfo import available_timezones

import rfc8785

from memory_core.errors import invalid

MODEL_ID = r"[a-z0-9-]+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Cosine distances of one embedding model; lower is closer. `tuned` says whether a space set them."""

    near_duplicate_at: float
    overlap_at: float
    tuned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits in force. Bytes are of UTF-8, durations carry their unit in the name."""

    max_request_bytes: int = 1_048_576
    max_body_bytes: int = 10_240
    max_title_chars: int = 120
    max_source_urls: int = 20
    max_url_bytes: int = 2_047
    max_future_observed_hours: int = 24
    max_saves_per_day: int = 200
    max_active_notes: int = 50
    max_recall_bytes: int = 102_400
    max_overlap_pair_notes: int = 20
    excerpt_chars: int = 300
    max_focus_chars: int = 1_000
    max_idempotency_key_chars: int = 200
    idempotency_kept_hours: int = 24
    near_duplicate_at: float = 0.10
    overlap_at: float = 0.30
    stale_after_days: int = 30
    compaction_suggested_over: int = 8
    timezone: str = "UTC"
    language: str = "en"
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def thresholds(self, model_id: str) -> Thresholds:
        """Give the distances for a model: those the space approved for it, else the defaults, saying which."""
        near = self.settings.get(f"overlap.{model_id}.near_duplicate_at")
        overlap = self.settings.get(f"overlap.{model_id}.overlap_at")
        return Thresholds(
            near_duplicate_at=self.near_duplicate_at if near is None else near,
            overlap_at=self.overlap_at if overlap is None else overlap,
            tuned=near is not None or overlap is not None,
        )

    def digest(self) -> str:
        """Hash all values in force: SHA-256 over their RFC 8785 form, hexadecimal."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["settings"] = dict(self.settings)
        return sha256(rfc8785.dumps(values)).hexdigest()


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _distance(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2


def _share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _one_of(*choices: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in choices


def _timezone(value: Any) -> bool:
    return isinstance(value, str) and value in available_timezones()


def _words(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= 1_000
        and all(isinstance(word, str) and 1 <= len(word) <= 100 for word in value)
    )


def _model(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(rf"{MODEL_ID}", value) is not None and len(value) <= 100


def _view(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) <= {"tags", "include_agent_memory"}
        and isinstance(value.get("include_agent_memory", False), bool)
        and isinstance(value.get("tags", []), list)
        and len(value.get("tags", [])) <= 8
        and all(
            isinstance(tag, str) and re.fullmatch(r"[a-z0-9][a-z0-9_.:-]{0,63}", tag)
            for tag in value.get("tags", [])
        )
    )


_MAX_COEFFICIENT = 1e12


def _judge(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"features", "coefficients", "intercept", "labels_digest"}
        and isinstance(value["features"], list)
        and isinstance(value["coefficients"], list)
        and len(value["features"]) == len(value["coefficients"])
        and all(
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and abs(number) < _MAX_COEFFICIENT
            for number in [*value["coefficients"], value["intercept"]]
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing a space may change: a pattern of names, its default, and what its value must be."""

    pattern: str
    default: Any
    rule: str
    accepts: Callable[[Any], bool]


LANGUAGES = ("en", "de", "fr", "es", "pl", "pt")

SETTINGS: tuple[Setting, ...] = (
    Setting(pattern=r"agent_memory\.enabled", default=False, rule="true or false", accepts=_boolean),
    Setting(
        pattern=r"agent_memory\.writes",
        default="agent",
        rule="agent or human_only",
        accepts=_one_of("agent", "human_only"),
    ),
    Setting(
        pattern=r"agent_memory\.max_notes_per_source", default=500, rule="1 to 5000", accepts=_whole(1, 5_000)
    ),
    Setting(
        pattern=r"language", default="en", rule="one of " + ", ".join(LANGUAGES), accepts=_one_of(*LANGUAGES)
    ),
    Setting(pattern=r"timezone", default="UTC", rule="an IANA time zone name", accepts=_timezone),
    Setting(
        pattern=rf"overlap\.{MODEL_ID}\.near_duplicate_at",
        default=0.10,
        rule="a cosine distance from 0 to 2, not above overlap_at",
        accepts=_distance,
    ),
    Setting(
        pattern=rf"overlap\.{MODEL_ID}\.overlap_at",
        default=0.30,
        rule="a cosine distance from 0 to 2, not below near_duplicate_at",
        accepts=_distance,
    ),
    Setting(
        pattern=rf"overlap\.{MODEL_ID}\.judge",
        default=None,
        rule="features, coefficients, intercept and labels_digest of a trained judge",
        accepts=_judge,
    ),
    Setting(pattern=r"stale_after_days", default=30, rule="1 to 3650", accepts=_whole(1, 3_650)),
    Setting(pattern=r"compaction_suggested_over", default=8, rule="2 to 50", accepts=_whole(2, 50)),
    Setting(pattern=r"turns_kept_days", default=90, rule="1 to 3650", accepts=_whole(1, 3_650)),
    Setting(
        pattern=r"views\.(chat|voice|brief|task:[a-z0-9][a-z0-9_.:-]{0,63})",
        default=None,
        rule="an object with tags (at most 8) and include_agent_memory",
        accepts=_view,
    ),
    Setting(pattern=r"redaction\.refuse_at", default=0.5, rule="0 to 1", accepts=_share),
    Setting(pattern=r"redaction\.mask_at", default=0.2, rule="0 to 1", accepts=_share),
    Setting(
        pattern=r"redaction\.allowed_words",
        default=[],
        rule="at most 1000 words of 1 to 100 characters",
        accepts=_words,
    ),
    Setting(pattern=r"distillation\.model", default="extractive", rule="a model id", accepts=_model),
)


def check_setting(name: str, value: Any) -> None:
    """Refuse a setting that does not exist or a value it does not take; null returns it to its default."""
    for setting in SETTINGS:
        if re.fullmatch(setting.pattern, name):
            if value is not None and not setting.accepts(value):
                raise invalid(name, "setting_value", f"must be {setting.rule}")
            return
    known = ", ".join(named_settings())
    raise invalid("set", "setting_name", f"no such setting can be changed; known are {known}")


def named_settings() -> dict[str, Setting]:
    """Give the settings by the names that a person reads, `<model>` standing for a model's id."""
    names = {}
    for setting in SETTINGS:
        name = setting.pattern.replace(MODEL_ID, "<model>").replace("\\.", ".")
        names["views.<name>" if name.startswith("views.") else name] = setting
    return names


def in_force(settings: Mapping[str, Any]) -> Policy:
    """Give the policy of a space whose approved settings are these.

    Raises `invalid_input` where two settings contradict each other.
    """
    base = Policy()
    names = ("stale_after_days", "compaction_suggested_over", "timezone", "language")
    policy = Policy(
        **{name: settings.get(name, getattr(base, name)) for name in names},
        settings=MappingProxyType(dict(settings)),
    )
    models = {name.split(".")[1] for name in settings if name.startswith("overlap.")}
    for model_id in sorted(models):
        thresholds = policy.thresholds(model_id)
        if thresholds.near_duplicate_at > thresholds.overlap_at:
            raise invalid(
                f"overlap.{model_id}.near_duplicate_at", "threshold_order", "must not be above overlap_at"
            )
    return policy


__all__ = [
    "LANGUAGES",
    "SETTINGS",
    "Policy",
    "Setting",
    "Thresholds",
    "check_setting",
    "in_force",
]
