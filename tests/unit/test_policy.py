"""The policy: the numbers of the program, the settings a space may change, and the digest of what is in force."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.policy import SETTINGS, Policy, check_setting, in_force

NEAR, OVERLAP = "overlap.word-hash.near_duplicate_at", "overlap.word-hash.overlap_at"
JUDGE = {"features": ["distance"], "coefficients": [-8.5], "intercept": 2.0, "labels_digest": "ab" * 32}


def test_the_numbers_are_those_of_the_specification() -> None:
    policy = Policy()
    assert {
        field.name: getattr(policy, field.name) for field in fields(policy) if field.name != "settings"
    } == {
        "max_request_bytes": 1_048_576,
        "max_body_bytes": 10_240,
        "max_title_chars": 120,
        "max_source_urls": 20,
        "max_url_bytes": 2_047,
        "max_future_observed_hours": 24,
        "max_saves_per_day": 200,
        "max_active_notes": 50,
        "max_recall_bytes": 102_400,
        "max_overlap_pair_notes": 20,
        "excerpt_chars": 300,
        "max_focus_chars": 1_000,
        "max_idempotency_key_chars": 200,
        "idempotency_kept_hours": 24,
        "near_duplicate_at": 0.10,
        "overlap_at": 0.30,
        "stale_after_days": 30,
        "compaction_suggested_over": 8,
        "timezone": "UTC",
        "language": "en",
    }


def test_a_policy_cannot_be_changed_in_place() -> None:
    given = {NEAR: 0.05}
    policy = in_force(given)
    with pytest.raises(FrozenInstanceError):
        policy.max_body_bytes = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        policy.settings[NEAR] = 0.2  # type: ignore[index]
    given[NEAR] = 0.2
    assert policy.thresholds("word-hash").near_duplicate_at == 0.05


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent_memory.enabled", True),
        ("agent_memory.writes", "human_only"),
        ("agent_memory.max_notes_per_source", 5_000),
        ("language", "pt"),
        ("timezone", "America/Sao_Paulo"),
        (NEAR, 0),
        (NEAR, 0.08),
        (OVERLAP, 2),
        ("overlap.word-hash.judge", JUDGE),
        ("stale_after_days", 1),
        ("stale_after_days", 3_650),
        ("compaction_suggested_over", 2),
        ("compaction_suggested_over", 50),
        ("turns_kept_days", 14),
        ("views.chat", {"tags": ["pricing"], "include_agent_memory": True}),
        ("views.task:weekly", {}),
        ("redaction.refuse_at", 0.5),
        ("redaction.mask_at", 1),
        ("redaction.allowed_words", ["Kelva"]),
        ("distillation.model", "extractive"),
    ],
)
def test_a_setting_takes_a_value_that_it_means_and_null(name: str, value: Any) -> None:
    check_setting(name, value)
    check_setting(name, None)


def test_defaults_of_the_settings_are_those_of_the_specification_and_are_accepted() -> None:
    defaults = {setting.pattern.replace("\\", ""): setting.default for setting in SETTINGS}
    assert defaults["agent_memory.enabled"] is False
    assert defaults["agent_memory.writes"] == "agent"
    assert defaults["agent_memory.max_notes_per_source"] == 500
    assert defaults["turns_kept_days"] == 90
    assert defaults["stale_after_days"] == Policy().stale_after_days
    assert defaults["compaction_suggested_over"] == Policy().compaction_suggested_over
    for setting in SETTINGS:
        assert setting.default is None or setting.accepts(setting.default), setting.pattern


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent_memory.enabled", "true"),
        ("agent_memory.enabled", 1),
        ("agent_memory.writes", "nobody"),
        ("agent_memory.max_notes_per_source", 0),
        ("agent_memory.max_notes_per_source", 5_001),
        ("language", "it"),
        ("language", ["en"]),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../../etc/passwd"),
        (NEAR, -0.01),
        (NEAR, 2.01),
        (NEAR, float("nan")),
        (NEAR, "0.1"),
        (NEAR, True),
        ("overlap.word-hash.judge", {**JUDGE, "coefficients": []}),
        ("overlap.word-hash.judge", {**JUDGE, "extra": 1}),
        ("overlap.word-hash.judge", {**JUDGE, "intercept": float("nan")}),
        ("overlap.word-hash.judge", {**JUDGE, "coefficients": [float("inf")]}),
        ("stale_after_days", 0),
        ("stale_after_days", 3_651),
        ("stale_after_days", 30.0),
        ("stale_after_days", True),
        ("compaction_suggested_over", 1),
        ("compaction_suggested_over", 51),
        ("views.chat", {"tags": ["UPPER"]}),
        ("views.chat", {"tags": ["a"] * 9}),
        ("views.chat", {"include_agent_memory": "yes"}),
        ("views.chat", {"limit": 3}),
        ("redaction.refuse_at", 1.01),
        ("redaction.allowed_words", ["x" * 101]),
        ("redaction.allowed_words", "Kelva"),
        ("distillation.model", ""),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_refused_by_name_and_not_repeated(
    name: str, value: Any
) -> None:
    with pytest.raises(MemoryCoreError) as caught:
        check_setting(name, value)
    assert (caught.value.code, caught.value.details["field"]) == ("invalid_input", name)
    assert caught.value.details["rule"] == "setting_value"
    assert "Olympus" not in caught.value.message
    assert "passwd" not in caught.value.message


@pytest.mark.parametrize(
    "name",
    [
        "",
        "max_body_bytes",
        "max_saves_per_day",
        "settings",
        "stale_after_days\n",
        "stale_after_days ",
        "Language",
        "near_duplicate_at",
        "overlap.near_duplicate_at",
        "overlap.Word_Hash.near_duplicate_at",
        "overlap.word-hash.other_at",
        "views.email",
        "views.task:",
        "agent_memory",
    ],
)
def test_only_the_named_settings_can_change(name: str) -> None:
    with pytest.raises(MemoryCoreError) as caught:
        check_setting(name, None)
    assert (caught.value.code, caught.value.details["rule"]) == ("invalid_input", "setting_name")


def test_thresholds_belong_to_the_model_they_were_tuned_for() -> None:
    policy = in_force({NEAR: 0.05, OVERLAP: 0.2})
    tuned, other = policy.thresholds("word-hash"), policy.thresholds("use-multilingual-v3")
    assert (tuned.near_duplicate_at, tuned.overlap_at, tuned.tuned) == (0.05, 0.2, True)
    assert (other.near_duplicate_at, other.overlap_at, other.tuned) == (0.10, 0.30, False)


def test_a_threshold_set_to_zero_is_not_taken_for_an_absent_one() -> None:
    thresholds = in_force({NEAR: 0, OVERLAP: 0}).thresholds("word-hash")
    assert (thresholds.near_duplicate_at, thresholds.overlap_at) == (0, 0)


@pytest.mark.parametrize("settings", [{NEAR: 0.31}, {OVERLAP: 0.09}, {NEAR: 0.2, OVERLAP: 0.19}])
def test_contradicting_thresholds_are_refused_also_against_a_default(settings: dict[str, float]) -> None:
    with pytest.raises(MemoryCoreError) as caught:
        in_force(settings)
    assert (caught.value.code, caught.value.details["rule"]) == ("invalid_input", "threshold_order")


def test_equal_thresholds_do_not_contradict_each_other() -> None:
    assert in_force({NEAR: 0.30}).thresholds("word-hash").near_duplicate_at == 0.30


def test_the_digest_changes_with_every_number_and_every_setting() -> None:
    policy = Policy()
    digests = {policy.digest()}
    for field in fields(policy):
        value = getattr(policy, field.name)
        other = (
            f"{value}x" if isinstance(value, str) else {NEAR: 0.1} if field.name == "settings" else value + 1
        )
        digests.add(replace(policy, **{field.name: other}).digest())
    assert len(digests) == len(fields(policy)) + 1


def test_the_digest_does_not_depend_on_the_order_of_the_settings() -> None:
    one = in_force({"language": "de", NEAR: 0.05})
    other = in_force({NEAR: 0.05, "language": "de"})
    assert one.digest() == other.digest() != in_force({NEAR: 0.06, "language": "de"}).digest()


def test_settings_in_force_reach_the_limits_they_name() -> None:
    policy = in_force(
        {"stale_after_days": 7, "compaction_suggested_over": 3, "timezone": "Asia/Tokyo", "language": "fr"}
    )
    assert (policy.stale_after_days, policy.compaction_suggested_over) == (7, 3)
    assert (policy.timezone, policy.language) == ("Asia/Tokyo", "fr")
    assert policy.max_active_notes == 50
