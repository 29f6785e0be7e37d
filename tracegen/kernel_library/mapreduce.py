"""Declare map phases of MapReduce on a GPU (He et al., PACT 2008): inverted index, word count, similarity score.

Each thread processes a line of text, byte by byte. A first kernel counts the words or links of the line. A second
kernel reads the line again and stores them at places that follow from the sums of the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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

_BYTES = 256

Lanes = NDArray[Any]

Emit = Callable[[Lanes], None]
"""Store a match, the one with this number in its line."""


# ---- matches: words and links


class Matcher(NamedTuple):
    """A finite automaton that finds the matches in a line, one character at a time, and begins in state 0.

    ``following[256 * state + character]`` is the next state, and `ends` tells there whether a match ends before the
    character. The end of a line ends a match as well in the states of `last`.
    """

    following: NDArray[np.int64]
    ends: NDArray[np.bool_]
    last: NDArray[np.bool_]


def _match_words() -> Matcher:
    """Match words, consecutive letters; state 1 is inside one."""
    folded = np.arange(_BYTES) | 32
    letter = (folded >= ord("a")) & (folded <= ord("z"))
    return Matcher(np.tile(letter.astype(np.int64), 2), np.concatenate([letter & False, ~letter]), np.array([0, 1]) > 0)


def _match_links() -> Matcher:
    """Match links; the state is the number of characters of `LINK_MARK` that have been read."""
    read = len(LINK_MARK)
    following = np.zeros((read + 1, _BYTES), np.int64)
    following[:read, LINK_MARK[0]] = 1
    following[range(read), list(LINK_MARK)] = range(1, read + 1)
    following[read] = read
    following[read, ord('"')] = 0
    ends = np.zeros((read + 1, _BYTES), np.bool_)
    ends[read, ord('"')] = True
    return Matcher(following.ravel(), ends.ravel(), np.zeros(read + 1, np.bool_))


WORDS, LINKS = _match_words(), _match_links()


def scan(k: Block, text: Array, starts: Array, matcher: Matcher, emit: Emit) -> Any:
    """Read the line of every thread character by character; return the number of its matches."""
    first, last = k.load(starts, k.x), k.load(starts, k.x + 1)
    state, found = np.zeros((2, *k.x.settled().shape), np.int64)
    for p in k.range(first, last):
        active = (p < last).settled()
        at = state * _BYTES + branch_on(k, k.load(text, p)).settled()
        ends = matcher.ends[at]
        with k.where(ends):
            emit(found)
        found = found + (ends & active)
        state = np.where(active, matcher.following[at], state)
    if matcher.last.any():
        ends = matcher.last[state]
        with k.where(ends):
            emit(found)
        found = found + ends
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
    characters = text.characters
    marked = np.ones(max(0, len(characters) - len(LINK_MARK) + 1), np.bool_)
    for offset, character in enumerate(LINK_MARK):
        marked &= characters[offset : offset + len(marked)] == character
    starts = np.flatnonzero(marked) + len(LINK_MARK)
    stops = np.append(np.flatnonzero((characters == ord('"')) | (characters == ord("\n"))), len(characters))
    ends = stops[np.searchsorted(stops, starts)]
    closed = np.append(characters, 0)[ends] == ord('"')
    # A quotation mark that ends a link is not the last one of another mark.
    for at in np.flatnonzero(ends[:-1] + 1 == starts[1:]).tolist():
        closed[at + 1] &= not closed[at]
    return starts[closed], (ends - starts)[closed]


def _hashes(characters: NDArray[Any], starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.uint32]:
    hashed = np.zeros(len(starts), np.uint32)
    for at in range(lengths.max(initial=0)):
        checkpoint()
        longer = lengths > at
        hashed[longer] = hashed[longer] * np.uint32(31) + characters[starts[longer] + at]
    return hashed


def _places(text: Text, starts: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the line of each match, the number of matches of each line, and the place of its first one."""
    line = np.searchsorted(text.starts, starts, side="right") - 1
    counts = np.bincount(line, minlength=len(text.starts) - 1).astype(np.int32)
    return {"counts": counts, "first": (np.cumsum(counts) - counts).astype(np.int32), "lines": line.astype(np.int32)}


def _found(text: Text, matcher: Matcher) -> tuple[NDArray[Any], NDArray[Any]]:
    return find_words(text) if matcher is WORDS else find_links(text)


def _mapped(text: Text, matcher: Matcher) -> dict[str, NDArray[Any]]:
    """Return the results of both kernels, and the place of the results of each line."""
    starts, lengths = _found(text, matcher)
    hashed = text.characters | 32 if matcher is WORDS else text.characters
    return {
        **_places(text, starts),
        "hashes": _hashes(hashed, starts, lengths),
        "lengths": lengths.astype(np.int32),
    }


def _arrays(text: Text, matcher: Matcher) -> dict[str, Any]:
    places = _places(text, _found(text, matcher)[0])
    room = max(1, len(places["lines"]))
    return {
        "text": text.characters,
        "starts": text.starts,
        "counts": len(places["counts"]),
        "first": places["first"],
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
    lambda text: _arrays(text, LINKS),
    inputs={"text": Input(pages, read_text, need_of_pages)},
)


@iix.kernel("count", threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, LINKS), "counts"))
def iix_count(k: Block, text: Array, starts: Array, counts: Array) -> None:
    """Links in a line of HTML: starts[i], starts[i+1]; for each character: text[p]; -> counts[i]."""
    count(k, text, starts, counts, LINKS)


@iix.kernel(
    threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, LINKS), "hashes", "lengths", "lines")
)
def iix_map(
    k: Block, text: Array, starts: Array, first: Array, hashes: Array, lengths: Array, lines: Array, counts: Array
) -> None:
    """Inverted index, map: first[i], starts[i], starts[i+1]; each text[p]; per link -> hashes, lengths, lines."""
    with k.where(k.x < counts.elements):
        slot = k.load(first, k.x)

        def emit(found: Lanes) -> None:
            for array in (hashes, lengths, lines):
                k.store(array, slot + found)

        scan(k, text, starts, LINKS, emit)


def count(k: Block, text: Array, starts: Array, counts: Array, matcher: Matcher) -> None:
    """Count the matches in the line of every thread, and store the counts."""
    with k.where(k.x < counts.elements):
        scan(k, text, starts, matcher, lambda found: None)
        k.store(counts, k.x)


# ---- word count


wc = Benchmark(
    "wc",
    {"N": 16384, "WORDS": 12, "SEED": SEED},
    lambda text: _arrays(text, WORDS),
    inputs={"text": Input(prose, read_text, need_of_text)},
)


@wc.kernel("count", threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, WORDS), "counts"))
def wc_count(k: Block, text: Array, starts: Array, counts: Array) -> None:
    """Words in a line: starts[i], starts[i+1]; for each character: text[p]; -> counts[i]."""
    count(k, text, starts, counts, WORDS)


@wc.kernel(threads=_threads, block=(256,), result=lambda text: _only(_mapped(text, WORDS), "hashes", "lengths"))
def wc_map(k: Block, text: Array, starts: Array, first: Array, hashes: Array, lengths: Array, counts: Array) -> None:
    """Word count, map: first[i], starts[i], starts[i+1]; for each character: text[p]; per word -> hashes, lengths."""
    with k.where(k.x < counts.elements):
        slot = k.load(first, k.x)

        def emit(found: Lanes) -> None:
            for array in (hashes, lengths):
                k.store(array, slot + found)

        scan(k, text, starts, WORDS, emit)


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
