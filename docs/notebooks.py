"""Run example notebooks without Jupyter, and write their outputs into them.

`python docs/notebooks.py` renews all notebooks in docs/examples, or only those named on the command line, and prints
the names of changed ones. tests/project/test_docs.py fails if that would change one. The cells of a notebook share one
namespace. A cell's output is what it prints, and the value of its last line, as text and as HTML: what Jupyter shows.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

FOLDER = Path(__file__).resolve().parent / "examples"


def notebooks() -> list[Path]:
    """Return the example notebooks."""
    return sorted(FOLDER.glob("*.ipynb"))


def refresh(text: str) -> str:
    """Run the cells of a notebook in order, and return it with their outputs."""
    notebook = json.loads(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = _run("".join(cell["source"]), names, count)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _run(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec", dont_inherit=True), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval", dont_inherit=True), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        result = {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def renew(files: list[Path]) -> None:
    """Write notebooks with new outputs, and print the names of changed ones."""
    for file in files:
        before = file.read_text(encoding="utf-8")
        if (after := refresh(before)) != before:
            file.write_text(after, encoding="utf-8")
            print(file.name)


if __name__ == "__main__":
    renew([Path(name).resolve() for name in sys.argv[1:]] or notebooks())
