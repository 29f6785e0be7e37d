"""Declare map phases of MapReduce on a GPU (He et al., PACT 2008): inverted index, word count, similarity score.

Each thread processes a line of text, byte by byte. A first kernel counts the words or links of the line. A second
kernel reads the line again and stores them at places that follow from the sums of the counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from tracegen.kernel_library.control import branch_on
from tracegen.kernel_library.data import Input
from tracegen.kernel_library.inputs import SEED, Text, need_of_pages, need_of_text, pages, prose, read_text
from tracegen.kernel_library.registry import Benchmark, Position
from tracegen.simt.kernel_trace import Array, Block

LINK_MARK = b'href="'
"""Start of a link, which ends with the next quotation mark of its line."""

_LINK_CHARACTERS = np.frombuffer(LINK_MARK + b'"', dtype=np.uint8).astype(np.int64)

Lanes = NDArray[Any]
Finder = Callable[[Lanes, Lanes, Lanes], tuple[Lanes, Lanes, Lanes]]
"""Map (state, length, character) to (character is part of a match, a match ends before it, next state)."""

Emit = Callable[[Lanes, Lanes, Lanes], None]
"""Store a match: its number in the line, its hash and its length."""


# ---- matches: words and links


def word(state: Lanes, length: Lanes, character: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Match words: consecutive letters."""
    folded = character | 32
    inside = (folded >= ord("a")) & (folded <= ord("z"))
    return inside, ~inside & (length > 0), state


def link(state: Lanes, length: Lanes, character: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Match links; the state is the number of characters of `LINK_MARK` that have been read."""
    linked = state == len(LINK_MARK)
    ends = linked & (character == ord('"'))
    begun = np.where(character == _LINK_CHARACTERS[state], state + 1, np.where(character == LINK_MARK[0], 1, 0))
    return linked & ~ends, ends, np.where(linked, np.where(ends, 0, state), begun)


def scan(k: Block, text: Array, starts: Array, find: Finder, emit: Emit) -> Any:
    """Read the line of every thread character by character; return the number of its matches."""
    first, last = k.load(starts, k.x), k.load(starts, k.x + 1)
    state, length, hashed, found = np.zeros((4, *k.x.settled().shape), np.int64)
    for p in k.range(first, last):
        active = (p < last).settled()
        character = branch_on(k, k.load(text, p)).settled()
        inside, ends, after = find(state, length, character)
        with k.where(ends):
            emit(found, hashed, length)
        found = found + (ends & active)
        letter = character | 32 if find is word else character
        hashed = np.where(inside, (hashed * 31 + letter) & 0xFFFFFFFF, np.where(active, 0, hashed))
        length = np.where(inside, length + 1, np.where(active, 0, length))
        state = np.where(active, after, state)
    if find is word:
        with k.where(length > 0):
            emit(found, hashed, length)
        found = found + (length > 0)
    return found


# ---- the same for the whole text, with NumPy


def find_words(text: Text) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the starts and lengths of all words; a word does not continue in the next line."""
    folded = text.characters | 32
    letter = np.concatenate([[False], (folded >= ord("a")) & (folded <= ord("z")), [False]])
    starts, ends = (np.flatnonzero(change) for change in (letter[1:] & ~letter[:-1], letter[:-1] & ~letter[1:]))
    return starts, ends - starts


def find_links(text: Text) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the starts and lengths of all links."""
    spans = [m.span(1) for m in re.finditer(re.escape(LINK_MARK) + rb'([^"\n]*)"', text.characters.tobytes())]
    starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
    return starts, ends - starts


def _hashes(characters: NDArray[Any], starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.uint32]:
    hashed = np.zeros(len(starts), np.uint32)
    for at in range(lengths.max(initial=0)):
        checkpoint()
        longer = lengths > at
        hashed[longer] = hashed[longer] * np.uint32(31) + characters[starts[longer] + at]
    return hashed


def _mapped(text: Text, kind: Finder) -> dict[str, NDArray[Any]]:
    """Return the results of both kernels, and the place of the results of each line."""
    starts, lengths = find_words(text) if kind is word else find_links(text)
    line = np.searchsorted(text.starts, starts, side="right") - 1
    counts = np.bincount(line, minlength=len(text.starts) - 1).astype(np.int32)
    return {
        "counts": counts,
        "first": (np.cumsum(counts) - counts).astype(np.int32),
        "hashes": _hashes(text.characters | 32 if kind is word else text.characters, starts, lengths),
        "lengths": lengths.astype(np.int32),
        "lines": line.astype(np.int32),
    }


def _arrays(text: Text, kind: Finder) -> dict[str, Any]:
    mapped = _mapped(text, kind)
    room = max(1, len(mapped["lines"]))
    return {
        "text": text.characters,
        "starts": text.starts,
        "counts": len(mapped["counts"]),
        "first": mapped["first"],
        "hashes": room,
        "lengths": room,
        "lines": room,
    }


def _only(mapped: Mapping[str, NDArray[Any]], *names: str) -> Mapping[str, NDArray[Any]]:
    return {name: mapped[name] for name in names}


def _threads(text: Text) -> tuple[int]:
    return (len(text.starts) - 1,)


# ---- inverted index


iix = Benchmark(
    "iix",
    {"N": 16384, "WORDS": 8, "SEED": SEED},
    lambda text: _arrays(text, link),
    inputs={"text": Input(pages, read_text, need_of_pages)},
)


@iix.kernel("count", threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, link), "counts"))
def iix_count(k: Block, text: Array, starts: Array, counts: Array) -> None:
    """Links in a line of HTML: starts[i], starts[i+1]; for each character: text[p]; -> counts[i]."""
    count(k, text, starts, counts, link)


@iix.kernel(
    threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, link), "hashes", "lengths", "lines")
)
def iix_map(
    k: Block, text: Array, starts: Array, first: Array, hashes: Array, lengths: Array, lines: Array, counts: Array
) -> None:
    """Inverted index, map: first[i], starts[i], starts[i+1]; each text[p]; per link -> hashes, lengths, lines."""
    with k.where(k.x < counts.elements):
        slot = k.load(first, k.x)

        def emit(found: Lanes, hashed: Lanes, length: Lanes) -> None:
            for array in (hashes, lengths, lines):
                k.store(array, slot + found)

        scan(k, text, starts, link, emit)


def count(k: Block, text: Array, starts: Array, counts: Array, find: Finder) -> None:
    """Count the matches in the line of every thread, and store the counts."""
    with k.where(k.x < counts.elements):
        scan(k, text, starts, find, lambda *found: None)
        k.store(counts, k.x)


# ---- word count


wc = Benchmark(
    "wc",
    {"N": 16384, "WORDS": 12, "SEED": SEED},
    lambda text: _arrays(text, word),
    inputs={"text": Input(prose, read_text, need_of_text)},
)


@wc.kernel("count", threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, word), "counts"))
def wc_count(k: Block, text: Array, starts: Array, counts: Array) -> None:
    """Words in a line: starts[i], starts[i+1]; for each character: text[p]; -> counts[i]."""
    count(k, text, starts, counts, word)


@wc.kernel(threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, word), "hashes", "lengths"))
def wc_map(k: Block, text: Array, starts: Array, first: Array, hashes: Array, lengths: Array, counts: Array) -> None:
    """Word count, map: first[i], starts[i], starts[i+1]; for each character: text[p]; per word -> hashes, lengths."""
    with k.where(k.x < counts.elements):
        slot = k.load(first, k.x)

        def emit(found: Lanes, hashed: Lanes, length: Lanes) -> None:
            for array in (hashes, lengths):
                k.store(array, slot + found)

        scan(k, text, starts, word, emit)


# ---- similarity score


def features(N: int, M: int, SEED: int) -> NDArray[np.float32]:
    """Generate N vectors of M features, none of which is zero."""
    return np.random.default_rng(SEED).uniform(0.1, 1, (N, M)).astype(np.float32)


def pairs(N: int) -> NDArray[np.int32]:
    """Return all pairs of N numbers, the lower one first."""
    return np.stack(np.triu_indices(N, 1), axis=1).astype(np.int32)


def similarities(N: int, M: int, SEED: int) -> Mapping[str, NDArray[Any]]:
    """Return the cosine of the angle between the vectors of each pair."""
    vectors = features(N, M, SEED).astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return {"scores": (units @ units.T)[*pairs(N).T].astype(np.float32)}


ss = Benchmark(
    "ss",
    {"N": Position(512, least=2, below=1 << 14), "M": 128, "SEED": SEED},
    lambda N, M: {"pairs": pairs(N), "features": (N, M), "scores": N * (N - 1) // 2},
    need=lambda N: 24 * N * N,
)


@ss.kernel(threads=lambda N: (N * (N - 1) // 2,), result=similarities)
def ss_1(k: Block, pairs: Array, features: Array, scores: Array, M: int) -> None:
    """Similarity score of a pair: i, j = pairs[p]; for f<M: features[i,f], features[j,f]; -> scores[p]."""
    p = k.x
    with k.where(p < scores.elements):
        i, j = k.load(pairs, p, 0), k.load(pairs, p, 1)
        for f in k.range(M):
            k.load(features, i, f)
            k.load(features, j, f)
        k.store(scores, p)
