"""Keys of questions: equal questions have one key, and a change of the code changes all keys."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.answers import key as key_module
from rdmodel.answers.key import canonical, question_key
from rdmodel.answers.store import Answers
from rdmodel.errors import ConfigError
from tests.support.examples import examples
from tests.support.stored_answers import answer, question


def test_the_order_of_keys_does_not_matter():
    one = {"a": 1, "b": {"c": [1, 2], "d": None}}
    other = {"b": {"d": None, "c": (1, 2)}, "a": 1}
    assert canonical(one) == canonical(other) == '{"a":1,"b":{"c":[1,2],"d":null}}'
    assert question_key(one) == question_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, "1"),
        (1, True),
        (0, None),
        (0.0, -0.0),
        ([1, [2]], [[1], 2]),
        ("é", "e\u0301"),
        ("", None),
        (0.1 + 0.2, 0.3),
        ({"a": {}}, {"a": []}),
    ],
)
def test_values_that_are_not_the_same_are_different_questions(one, other):
    assert question_key({"x": one}) != question_key({"x": other})


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (float("nan"), r"question\.x\[1\]: nan: must be finite"),
        (float("inf"), r"question\.x\[1\]: inf"),
        ({1: 2}, r"question\.x\[1\]: key 1: must be text"),
        (b"a", r"question\.x\[1\]: bytes: must be"),
        ({1, 2}, r"question\.x\[1\]: set: must be"),
        pytest.param(10**5000, "question: ", id="digits"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(path, value, named):
    with Answers(path) as cache:
        for ask in (cache.get, lambda question: cache.put(question, {})):
            with pytest.raises(ConfigError, match=named):
                ask({"x": [0, value]})


def test_a_question_that_holds_itself_is_refused():
    endless: dict[str, object] = {}
    endless["x"] = endless
    with pytest.raises(ConfigError, match="contains itself"):
        canonical(endless)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"a", {1, 2}, pytest.param(10**5000, id="digits")])
def test_an_answer_that_is_not_json_is_refused(path, value):
    with Answers(path) as cache, pytest.raises(ConfigError, match="answer: "):
        cache.put(question(1), {"x": value})


def test_a_question_or_an_answer_is_a_mapping(path):
    with Answers(path) as cache:
        with pytest.raises(ConfigError, match="question: 3: must be a mapping"):
            cache.get(3)
        with pytest.raises(ConfigError, match=r"answer: \[\]: must be a mapping"):
            cache.put({}, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@examples(40)
@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), JSON))
def test_the_canonical_form_says_the_same_as_the_question_and_differs_where_they_differ(one, other):
    assert json.loads(canonical(one)) == one
    assert (canonical(one) == canonical(other)) == (plainly(one) == plainly(other))


def plainly(value):
    """Return what two values have in common if they are the same question, written another way."""
    if isinstance(value, dict):
        return ("dict", tuple((key, plainly(value[key])) for key in sorted(value)))
    if isinstance(value, list):
        return ("list", tuple(map(plainly, value)))
    return (type(value).__name__, repr(value))


def test_other_code_shares_no_answers(path, tmp_path, monkeypatch):
    with Answers(path) as cache:
        cache.put(question(1), answer(1))
        monkeypatch.setattr(key_module, "_code_digest", lambda: b"other code")
        assert cache.get(question(1)) is None


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("model.py", lambda path: path.write_text("x = 2\n")),
        ("_core.so", lambda path: path.write_bytes(b"\x7fELF another build")),
        ("_core.so", lambda path: os.utime(path, ns=(1, 2))),
        ("presets/gpu.toml", lambda path: path.write_text("size = 2\n")),
        ("model.py", lambda path: path.rename(path.with_name("models.py"))),
        ("model.py", lambda path: path.unlink()),
    ],
)
def test_any_change_of_the_code_changes_the_digest(tmp_path, monkeypatch, file, change):
    package = tmp_path / "rdmodel"
    (package / "presets").mkdir(parents=True)
    (package / "model.py").write_text("x = 1\n")
    (package / "_core.so").write_bytes(b"\x7fELF one build")
    (package / "presets/gpu.toml").write_text("size = 1\n")
    monkeypatch.setattr(key_module, "_folders", lambda name: [str(package)] if name == "rdmodel" else [])
    before = key_module._code_digest.__wrapped__()
    (package / "__pycache__").mkdir()
    (package / "__pycache__/model.pyc").write_bytes(b"x")
    assert key_module._code_digest.__wrapped__() == before
    change(package / file)
    assert key_module._code_digest.__wrapped__() != before


def test_code_that_cannot_be_read_means_no_answers(path, monkeypatch):
    monkeypatch.setattr(key_module, "_code", lambda: iter([("/nowhere/model.py", "model.py")]))
    key_module._code_digest.cache_clear()
    try:
        with Answers(path) as cache:
            cache.put(question(1), answer(1))
            assert cache.get(question(1)) is None
            assert cache.trouble == "/nowhere/model.py: cannot be read: No such file or directory"
    finally:
        key_module._code_digest.cache_clear()
