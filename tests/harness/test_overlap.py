"""The overlap evaluation: scores, thresholds by model, figures by slice, reports and the command."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from eval import command, overlap, report
from eval.datasets import Pair, PairSet, digest_of, load_pairs
from memory_core.embedding import WordHashEmbedder
from memory_core.errors import MemoryCoreError
from memory_core.formats.evidence import take_evidence
from memory_core.policy import Policy, in_force

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIXED = {"auc", "precision@0.10", "recall@0.10", "distinct_within@0.30", "best_f1"}


class Counting:
    """Word hashes, counted; cannot read a text that holds a star."""

    def __init__(self, model_id: str = "counting", turned: bool = False) -> None:
        self.model_id = model_id
        self.texts: list[str] = []
        self._words = WordHashEmbedder()
        self._turned = turned

    def embed(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        self.texts += texts
        found = self._words.embed(texts)
        return [
            None if "*" in text or vector is None else vector[::-1] if self._turned else vector
            for text, vector in zip(texts, found, strict=True)
        ]

    def load(self) -> None:
        return None


class Starless(Counting):
    """As Counting, but reads the probe of the cache, which holds stars."""

    def embed(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        return super().embed([text.replace("*", " ") for text in texts])


def pair(a: str, b: str, label: str, **rest: Any) -> Pair:
    given = {"pair_id": f"{a[:5]}-{b[:5]}", "lang_a": "en", "lang_b": "en", "source": "s", "length": "short"}
    return Pair(a=a, b=b, label=label, **{**given, "kind": None, **rest})


PAIRS = (
    pair("acme raised four million", "acme raised four million", "duplicate"),
    pair("acme raised four million", "acme raised five million", "updated"),
    pair("acme raised four million in may", "acme raised four million, led by birch", "overlap"),
    pair("acme raised four million", "totally unrelated words stand here", "distinct"),
    pair("opens a depot in venlo", "new office in porto", "distinct", lang_a="pt", lang_b="pt"),
    pair("opens a depot in venlo", "eröffnet ein lager", "duplicate", lang_b="de", kind="translation"),
)


def as_set(pairs: Sequence[Pair]) -> PairSet:
    return PairSet(pairs=tuple(pairs), files=("set.jsonl",), digest=digest_of(pairs))


def reported(
    pairs: Sequence[Pair] = PAIRS, *, texts: bool = True, policy: Policy | None = None
) -> dict[str, Any]:
    in_use = policy or Policy()
    scored = overlap.score(pairs, WordHashEmbedder(), None)
    measured = overlap.measure(scored, in_use, texts=texts, resamples=50)
    return report.build(measured, [], as_set(pairs), in_use, NOW, texts=texts)


def figure(result: dict[str, Any], name: str, where: str = "all") -> dict[str, Any] | None:
    return next((f for f in result["figures"] if (f["name"], f["slice"]) == (name, where)), None)


# -- scores ---------------------------------------------------------------------------------------


def test_identical_text_lies_at_zero_and_nearer_is_never_the_other_way_round() -> None:
    """Case 17: a distance is not a similarity; equal texts are at 0 and inside every threshold."""
    distances = overlap.score(PAIRS, WordHashEmbedder(), None).distances
    assert distances[0] == pytest.approx(0, abs=1e-6)
    assert distances[0] < distances[1] < distances[3]
    assert distances[3] > 0.5
    result = reported([PAIRS[0], PAIRS[3]])
    assert figure(result, "auc")["value"] == 1.0  # type: ignore[index]
    assert figure(result, "recall@0.10")["value"] == 1.0  # type: ignore[index]
    assert figure(result, "distinct_within@0.30")["value"] == 0.0  # type: ignore[index]


def test_each_text_is_embedded_once() -> None:
    embedder = Counting()
    overlap.score(PAIRS, embedder, None)
    assert sorted(embedder.texts) == sorted({text for p in PAIRS for text in (p.a, p.b)})


def test_texts_that_the_model_cannot_read_are_counted_and_left_out() -> None:
    pairs = (*PAIRS, pair("* * *", "acme", "duplicate", pair_id="starred"))
    measured = overlap.measure(overlap.score(pairs, Counting(), None), Policy(), resamples=20)
    assert measured["pairs"]["not_compared"] == 1
    assert measured["pairs"]["not_compared_ids"] == ["starred"]
    assert measured["pairs"]["compared"] == len(PAIRS)
    assert figure(measured, "recall@0.10")["n"] == 3  # type: ignore[index]


def test_nothing_to_compare_is_refused() -> None:
    scored = overlap.score([pair("*", "**", "duplicate")], Counting(), None)
    with pytest.raises(MemoryCoreError) as refusal:
        overlap.measure(scored, Policy())
    assert refusal.value.details["rule"] == "not_compared"


# -- cache ----------------------------------------------------------------------------------------


def test_cache_spares_embedding_and_gives_the_same_distances(tmp_path: Path) -> None:
    first = overlap.score(PAIRS, Starless(), tmp_path)
    again = Starless()
    second = overlap.score(PAIRS, again, tmp_path)
    assert len(again.texts) == 1, "only the probe"
    assert (first.distances == second.distances).all()
    assert not list(tmp_path.glob("*.tmp"))


def test_cache_remembers_what_the_model_could_not_read(tmp_path: Path) -> None:
    class Picky(Starless):
        def embed(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
            found = super().embed(texts)
            return [None if text == "unreadable" else v for text, v in zip(texts, found, strict=True)]

    pairs = (PAIRS[0], pair("unreadable", "acme", "duplicate"))
    for _ in range(2):
        assert np.isnan(overlap.score(pairs, Picky(), tmp_path).distances).tolist() == [False, True]


def test_cache_of_another_recipe_or_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    overlap.score(PAIRS, Starless(), tmp_path)
    turned = Starless(turned=True)
    overlap.score(PAIRS, turned, tmp_path)
    assert len(turned.texts) > 1
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"no archive")
    again = Starless()
    overlap.score(PAIRS, again, tmp_path)
    assert len(again.texts) > 1


def test_cache_keeps_models_apart(tmp_path: Path) -> None:
    overlap.score(PAIRS, Starless("one"), tmp_path)
    other = Starless("two")
    overlap.score(PAIRS, other, tmp_path)
    assert len(other.texts) > 1
    assert len(list(tmp_path.iterdir())) == 2


def test_no_cache_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A space's own pairs are scored without a cache; nothing of them is written."""
    monkeypatch.chdir(tmp_path)
    overlap.score(PAIRS, Starless(), None)
    assert list(tmp_path.iterdir()) == []


# -- figures --------------------------------------------------------------------------------------


def test_positives_are_the_same_fact_and_for_overlap_at_also_overlap() -> None:
    result = reported()
    distances = overlap.score(PAIRS, WordHashEmbedder(), None).distances
    same = np.array([p.label in ("duplicate", "updated") for p in PAIRS])
    assert figure(result, "auc")["value"] == pytest.approx(roc_auc_score(same, -distances))  # type: ignore[index]
    assert figure(result, "recall@0.10")["n"] == 3  # type: ignore[index]
    assert figure(result, "recall@0.30")["n"] == 4  # type: ignore[index]
    assert figure(result, "distinct_within@0.30")["n"] == 2  # type: ignore[index]


def test_fixed_names_stay_while_the_thresholds_in_force_move() -> None:
    wide = in_force({"overlap.word-hash.near_duplicate_at": 0.6, "overlap.word-hash.overlap_at": 1.9})
    result = reported(policy=wide)
    assert result["thresholds"] == {"near_duplicate_at": 0.6, "overlap_at": 1.9, "tuned": True}
    assert {f["name"] for f in result["figures"] if f["slice"] == "all"} >= FIXED
    assert figure(result, "distinct_within@0.30")["value"] == 1.0  # type: ignore[index]
    assert result["policy_digest"] != reported()["policy_digest"]


def test_thresholds_of_another_model_are_not_in_force() -> None:
    """Case 4: what a space approved for one model changes nothing for another."""
    other = in_force(
        {"overlap.use-multilingual-v3.near_duplicate_at": 0.6, "overlap.use-multilingual-v3.overlap_at": 1.9}
    )
    result = reported(policy=other)
    assert result["thresholds"] == {"near_duplicate_at": 0.1, "overlap_at": 0.3, "tuned": False}


def test_tuned_thresholds_become_settings_of_their_own_model_only() -> None:
    """Case 4: thresholds are refused where the model id has changed."""
    result = reported()
    settings = overlap.settings_from(result, "word-hash")
    assert set(settings) == {"overlap.word-hash.near_duplicate_at", "overlap.word-hash.overlap_at"}
    assert in_force(settings).thresholds("word-hash").tuned
    with pytest.raises(MemoryCoreError) as refusal:
        overlap.settings_from(result, "use-multilingual-v3")
    assert refusal.value.details["rule"] == "same_model"


def test_slices_hold_the_pairs_they_name() -> None:
    members = {name: mask.tolist() for name, mask in overlap.slices(PAIRS).items()}
    assert members["all"] == [True] * 6
    assert members["lang=en"] == [True] * 4 + [False] * 2
    assert members["lang=pt"] == [False] * 4 + [True, False]
    assert members["languages=across"] == [False] * 5 + [True]
    assert members["languages=same"] == [True] * 5 + [False]
    assert members["kind=translation"] == [False] * 5 + [True]
    assert {"source=s", "length=short"} <= set(members)
    assert "lang=de" not in members


def test_figures_keep_to_the_fixed_slices_and_lengths_have_a_list_of_their_own() -> None:
    result = reported([*PAIRS, pair("acme raised four", "word " * 60, "distinct", length="med")])
    fixed = re.compile(r"all|lang=..|languages=(same|across)|(kind|set|source)=.+")
    assert all(fixed.fullmatch(f["slice"]) for f in result["figures"])
    assert {f["slice"] for f in result["figures_by_length"]} == {"length=short", "length=med"}


def test_undefined_figures_are_absent_with_their_count() -> None:
    result = reported()
    assert figure(result, "recall@0.10", "lang=pt") is None
    assert figure(result, "auc", "lang=pt") is None
    missing = {(f["name"], f["slice"]): f for f in result["undefined"]}
    assert missing["recall@0.10", "lang=pt"]["n"] == 0
    assert missing["auc", "lang=pt"]["n"] == 1
    for row in result["undefined"]:
        assert figure(result, row["name"], row["slice"]) is None
        assert row["why"]
    shown = {(f["name"], f["slice"]) for f in (*result["figures"], *result["figures_by_length"])}
    names = {name for name, _ in shown | set(missing)}
    assert all((name, s) in shown or (name, s) in missing for name in names for s in overlap.slices(PAIRS))


def test_every_figure_has_its_interval_around_it() -> None:
    result = reported()
    for row in (*result["figures"], *result["figures_by_length"]):
        assert set(row) == {"name", "slice", "value", "low", "high", "n"}
        assert row["n"] > 0
        assert row["low"] <= row["high"]


def test_tuned_near_duplicate_at_is_never_above_tuned_overlap_at() -> None:
    """The best F1 alone would put overlap_at at 0.2, below near_duplicate_at: the policy refuses such a pair."""
    chosen = [pair(f"a{i}", f"b{i}", label) for i, label in enumerate(["duplicate", "duplicate", "distinct"])]
    scored = overlap.Scored(model_id="given", pairs=tuple(chosen), distances=np.array([0.1, 0.2, 0.5]))
    measured = overlap.measure(scored, Policy(), resamples=20)
    assert measured["tuned"]["near_duplicate_at"]["value"] == pytest.approx(0.499)
    assert measured["tuned"]["overlap_at"]["value"] == pytest.approx(0.499)
    assert in_force(overlap.settings_from(measured, "given")).thresholds("given").tuned


def test_nearest_wrong_pairs_stand_on_both_sides() -> None:
    wrong = reported()["nearest_wrong"]
    assert [row["label"] for row in wrong["other_fact_nearest"]] == ["overlap", "distinct", "distinct"]
    distances = [row["distance"] for row in wrong["other_fact_nearest"]]
    assert distances == sorted(distances)
    beyond = [row["distance"] for row in wrong["same_fact_just_beyond"]]
    assert beyond == sorted(beyond)
    assert min(beyond) > 0.10
    assert wrong["same_fact_furthest"][0]["distance"] == max(beyond)


def test_the_same_pairs_give_the_same_report() -> None:
    assert report.render_json(reported()) == report.render_json(reported())


# -- reports --------------------------------------------------------------------------------------


def test_report_names_all_that_it_depends_on() -> None:
    result = reported()
    assert {"kind", "model", "data", "policy_digest", "version", "commit", "dirty", "created_at"} <= set(
        result
    )
    assert {
        "figures",
        "figures_by_length",
        "undefined",
        "others",
        "tuned",
        "curves",
        "calibration",
        "nearest_wrong",
    } <= set(result)
    assert result["kind"] == "overlap"
    assert result["model"] == "word-hash"
    assert result["data"] == {"digest": digest_of(PAIRS), "files": ["set.jsonl"], "rows": 6, "texts": True}
    assert result["policy_digest"] == Policy().digest()
    assert result["commit"] is None or re.fullmatch(r"[0-9a-f]{40}", result["commit"])
    assert result["created_at"] == "2026-03-01T12:00:00+00:00"


def test_evidence_is_small_and_recognises_the_report_file(tmp_path: Path) -> None:
    result = reported()
    path, _ = report.write(result, tmp_path)
    small = take_evidence(path.read_bytes())
    assert small["report_sha256"] == sha256(path.read_bytes()).hexdigest()
    assert small["data"] == {"digest": digest_of(PAIRS), "files": ["set.jsonl"], "rows": 6}
    assert set(small["tuned"]) == {"near_duplicate_at", "overlap_at"}
    assert {f["slice"] for f in small["figures"]} == {"all"}
    assert "acme" not in json.dumps(small)


def test_reports_without_texts_hold_ids_and_no_text() -> None:
    """A space's own pairs: neither the JSON nor the page says a word of them."""
    named = [
        pair(p.a, p.b, p.label, pair_id=f"id-{i}", lang_a=p.lang_a, lang_b=p.lang_b)
        for i, p in enumerate(PAIRS)
    ]
    result = reported(named, texts=False)
    assert result["data"]["texts"] is False
    for text in (report.render_json(result), report.render_page(result)):
        assert "id-3" in text
        for word in ("acme", "venlo", "lager"):
            assert word not in text


class Page(HTMLParser):
    """Collects what a browser would fetch, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_asks_nothing_of_the_network_and_escapes_texts() -> None:
    nasty = '<script src="http://x.example/a.js">alert(1)</script> & "quotes"'
    pairs = (*PAIRS, pair(nasty, "acme raised four million", "distinct", kind="<b>", source="<img src=x>"))
    result = reported(pairs)
    text = report.render_page(result)
    page = Page()
    page.feed(text)
    assert page.fetched
    assert all(where.startswith("data:image/png;base64,") for where in page.fetched)
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert any(nasty in found for found in page.text)
    assert "url(" not in text
    assert "@import" not in text
    for name in ("precision@0.10", "distinct_within@0.30", "near_duplicate_at"):
        assert name in text


def test_page_shows_every_plot() -> None:
    rows = [
        pair(f"acme raised {i} million", f"acme raised {i + i % 4} million", "duplicate", pair_id=f"s{i}")
        for i in range(12)
    ] + [pair(f"acme {i} depot", f"porto office {i}", "distinct", pair_id=f"d{i}") for i in range(12)]
    result = reported(rows)
    drawn = report.plots(result)
    assert len(drawn) == 6
    assert all(image.startswith(b"\x89PNG") for image in drawn.values())
    assert report.render_page(result).count("<img ") == 6
    assert drawn == report.plots(result)


def test_table_shows_undefined_as_a_dash() -> None:
    lines = report.render_table(reported()).splitlines()
    row = next(line for line in lines if line.startswith("lang=pt"))
    assert row.split()[1:] == ["-", "-", "-", "0.000", "-"]


def test_table_and_page_show_lengths_too() -> None:
    result = reported()
    assert any(line.startswith("length=short ") for line in report.render_table(result).splitlines())
    assert "<td>length=short</td>" in report.render_page(result)


def test_table_ends_by_saying_what_each_fixed_figure_means() -> None:
    last = report.render_table(reported()).split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in last] == list(report.FIXED)
    assert all(len(line.split()) > 5 for line in last)


# -- floors ---------------------------------------------------------------------------------------


def floors(folder: Path, *rows: str, files: str = '["set.jsonl"]', model: str = "word-hash") -> Path:
    path = folder / "floors.toml"
    path.write_text(
        f'[overlap.small]\nmodel = "{model}"\nfiles = {files}\nfloors = [{", ".join(rows)}]\n',
        encoding="utf-8",
    )
    return path


def test_floors_name_every_figure_that_breaks_one(tmp_path: Path) -> None:
    path = floors(
        tmp_path,
        '{name = "auc", slice = "all", min = 0.1}',
        '{name = "recall@0.10", slice = "all", min = 0.99}',
        '{name = "distinct_within@0.30", slice = "lang=en", max = -0.1}',
        '{name = "auc", slice = "lang=pt", min = 0.1}',
        '{name = "auc", slice = "length=short", min = 0.1}',
        '{name = "recall@0.10", slice = "length=short", min = 0.99}',
    )
    broken = report.below_floors(reported(), path)
    assert [(f["name"], f["slice"]) for f in broken] == [
        ("recall@0.10", "all"),
        ("distinct_within@0.30", "lang=en"),
        ("auc", "lang=pt"),
        ("recall@0.10", "length=short"),
    ]
    assert broken[2]["value"] is None, "an undefined figure holds no floor"


@pytest.mark.parametrize(
    "wrong",
    [
        {"files": '["other.jsonl"]'},
        {"model": "another"},
        {"rows": ['{name = "auc", slice = "all"}']},
        {"rows": ['{name = "auc", min = 0.5}']},
        {"rows": ['{name = "auc", slice = "all", minimum = 0.5}']},
        {"rows": []},
    ],
)
def test_floors_that_check_nothing_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    rows = wrong.pop("rows", ['{name = "auc", slice = "all", min = 0.5}'])
    with pytest.raises(MemoryCoreError):
        report.below_floors(reported(), floors(tmp_path, *rows, **wrong))


# -- command --------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORY_CORE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(command, "open_embedder", lambda choice: Starless(choice or "word-hash"))
    return tmp_path / "home"


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    path = tmp_path / "set.jsonl"
    rows = [
        {"id": p.pair_id, "a": p.a, "b": p.b, "label": p.label, "lang_a": p.lang_a, "lang_b": p.lang_b}
        for p in PAIRS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*words: object) -> Any:
    return CliRunner().invoke(command.command, ["overlap", *(str(word) for word in words)])


def test_command_prints_one_json_document_and_writes_both_files(home: Path, pairs_file: Path) -> None:
    answer = run(pairs_file, "--json", "--model", "one", "--model", "two")
    assert answer.exit_code == 0
    result = json.loads(answer.stdout)
    assert result["model"] == "one"
    assert [other["model"] for other in result["others"]] == ["two"]
    assert result["others"][0]["figures"]
    assert result["data"]["digest"] == load_pairs([pairs_file]).digest
    assert json.loads((home / "reports" / "overlap-one.json").read_text(encoding="utf-8")) == result
    assert sorted(path.name for path in (home / "reports").iterdir()) == [
        "overlap-one.html",
        "overlap-one.json",
    ]


def test_command_prints_a_table(home: Path, pairs_file: Path, tmp_path: Path) -> None:
    answer = run(pairs_file, "--report", tmp_path / "there")
    assert answer.exit_code == 0
    assert "distinct_within@0.30" in answer.stdout
    written = tmp_path / "there" / "overlap-word-hash.json"
    assert written.exists()
    assert answer.stdout.splitlines()[-2:] == [
        f"Report: {written}",
        f"Open in a browser: {written.with_suffix('.html')}",
    ]
    assert answer.stderr == "", "no progress where stderr is no terminal"


def test_command_refuses_with_code_and_message(home: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"a": "x", "b": "y", "label": "z"}\n', encoding="utf-8")
    answer = run(wrong, "--json")
    assert answer.exit_code == 1
    refusal = json.loads(answer.stdout)
    assert refusal["code"] == "invalid_input"
    assert (refusal["file"], refusal["line"], refusal["field"], refusal["rule"]) == (
        "wrong.jsonl",
        1,
        "label",
        "label",
    )
    answer = run(wrong)
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert "wrong.jsonl line 1" in answer.stderr


def test_command_exits_2_on_wrong_usage(home: Path, pairs_file: Path, tmp_path: Path) -> None:
    assert run().exit_code == 2
    assert run(tmp_path / "absent.jsonl").exit_code == 2
    assert run(pairs_file, "--precision", "7").exit_code == 2


def test_command_exits_1_naming_broken_floors_and_still_writes_the_report(
    home: Path, pairs_file: Path, tmp_path: Path
) -> None:
    path = floors(tmp_path, '{name = "recall@0.10", slice = "all", min = 0.99}')
    answer = run(pairs_file, "--floors", path)
    assert answer.exit_code == 1
    assert "recall@0.10 (all)" in answer.stderr
    assert (home / "reports" / "overlap-word-hash.json").exists()
    answer = run(pairs_file, "--floors", path, "--json")
    assert json.loads(answer.stdout)["figures"][0]["name"] == "recall@0.10"
    assert (
        run(pairs_file, "--floors", floors(tmp_path, '{name = "auc", slice = "all", min = 0.1}')).exit_code
        == 0
    )


def test_command_puts_tuned_thresholds_in_force_for_their_model_only(home: Path, pairs_file: Path) -> None:
    """Case 4, from the command line."""
    assert run(pairs_file, "--model", "one").exit_code == 0
    tuned = home / "reports" / "overlap-one.json"
    answer = run(pairs_file, "--model", "one", "--tuned", tuned, "--json")
    assert json.loads(answer.stdout)["thresholds"]["tuned"] is True
    answer = run(pairs_file, "--model", "two", "--tuned", tuned, "--json")
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["rule"] == "same_model"


def test_command_refuses_what_is_no_report(home: Path, pairs_file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    for content in (
        "no json",
        "[]",
        '{"kind": "redaction"}',
        '{"kind": "overlap", "model": "one", "tuned": {"x": 1}}',
    ):
        wrong.write_text(content, encoding="utf-8")
        answer = run(pairs_file, "--model", "one", "--tuned", wrong, "--json")
        assert answer.exit_code == 1
        assert json.loads(answer.stdout)["field"] == "report"


def test_command_refuses_a_model_named_twice(home: Path, pairs_file: Path) -> None:
    answer = run(pairs_file, "--model", "one", "--model", "one", "--json")
    assert json.loads(answer.stdout)["rule"] == "repeated"


def test_help_has_examples() -> None:
    answer = run("--help")
    assert answer.exit_code == 0
    assert "Examples:" in answer.stdout
    assert "memory-core eval overlap data/fixtures/overlap/*.jsonl" in answer.stdout
