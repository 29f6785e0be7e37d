"""Compile the CUDA files of a folder, and tell for each kernel whether it compiles, parses and can be executed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmodel.errors import RdmodelError
from tracegen.cuda.compiler import CompiledProgram, CompileError, compile_program
from tracegen.cuda.names import find_kernel
from tracegen.cuda.signatures import Signature, find_launched_kernels, signatures
from tracegen.cuda.source import Source, project_sources, read_source
from tracegen.ptx import Module, parse
from tracegen.ptx.lowering.lowering import lower_kernel
from validation.breadth.classes import classify_log

SUFFIXES = (".cu", ".cuh")
"""Suffixes of the files that are compiled."""

_KNOWN = re.compile(
    r"-?\d+[uUlL]*|true|false"
    r"|(?:const )?(?:unsigned|signed|char|short|int|long|float|double|bool|half|__half|uint\w*|\w+[1234])[ *]*"
)
"""Template arguments that need no names of the source."""

_CALL = "call of "
"""Start of the reason why a call stops, before the name of the function."""

EXECUTABLE, STOPS, LEFT_OUT = "executable", "stops", "left out"
"""Outcomes: no instruction stops; an instruction stops; the preprocessor leaves the kernel out, as written."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one kernel: `detail` is the name that the outcome is about, such as a header or an instruction."""

    suite: str
    file: str
    kernel: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class Task:
    """A file of a suite that no other file of the suite includes."""

    suite: str
    folder: Path
    file: Path

    def __str__(self) -> str:
        return f"{self.suite} {self.file}"


def find_tasks(suite: str, folder: Path) -> list[Task]:
    """Return the CUDA files below a folder that no other CUDA file of the folder includes, in order of their names."""
    files = sorted(path.resolve() for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    included: set[Path] = set()
    for path in files:
        included.update(_paths(read_source(path)) - {path})
    root = folder.resolve()
    return [Task(suite, root, path.relative_to(root)) for path in files if path not in included]


def study_file(task: Task) -> list[Outcome]:
    """Return the outcomes of the kernels that a file and the headers of its project define."""
    path = task.folder / task.file
    source = read_source(path)
    defined = list(_kernels(task, source))
    if not defined:
        return []
    found: dict[tuple[str, str], tuple[str, str]] = {}
    try:
        program = _compile(source)
    except RdmodelError as error:
        failure = classify_log(str(error)) if isinstance(error, CompileError) else ("other error", "")
        found = {(file, kernel.name): failure for file, kernel in defined}
    else:
        found = {(file, kernel.name): ("template", "") for file, kernel in defined if kernel.template}
        found |= {(file, kernel.name): (LEFT_OUT, "") for file, kernel in defined if not kernel.template}
        found |= _judge_program(program, [d for d in defined if not d[1].template])
        templates = [d for d in defined if d[1].template]
        found |= _judge_program(program, templates)
        left = [d for d in templates if found[d[0], d[1].name][0] == "template"]
        found |= _judge_templates(source, left)
    return [Outcome(task.suite, file, kernel, *outcome) for (file, kernel), outcome in found.items()]


def merge(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return one outcome per kernel: the best one of the files that include it, in order of suite, file and name."""
    best: dict[tuple[str, str, str], Outcome] = {}
    for outcome in outcomes:
        key = outcome.suite, outcome.file, outcome.kernel
        if key not in best or _rank(outcome) < _rank(best[key]):
            best[key] = outcome
    return [best[key] for key in sorted(best)]


def _rank(outcome: Outcome) -> int:
    order = (EXECUTABLE, STOPS)
    return order.index(outcome.outcome) if outcome.outcome in order else 3 if outcome.outcome == LEFT_OUT else 2


def _compile(source: Source, kernels: Sequence[str] = ()) -> CompiledProgram:
    return compile_program(source, kernels=kernels)


def _paths(source: Source) -> set[Path]:
    return {part.directory.resolve() / Path(part.name).name for part in _sources(source) if part.directory}


def _sources(source: Source) -> list[Source]:
    return list(project_sources(source, []).values())


def _kernels(task: Task, source: Source) -> Iterator[tuple[str, Signature]]:
    """Yield the kernels with bodies of a file and of the headers of its project, with the file that defines them."""
    for part in (source, *_sources(source)):
        assert part.directory is not None
        path = part.directory.resolve() / Path(part.name).name
        if path.is_relative_to(task.folder):
            for kernel in {s.name: s for s in signatures(part.text) if s.defined}.values():
                yield path.relative_to(task.folder).as_posix(), kernel


def _judge_program(
    program: CompiledProgram, kernels: Sequence[tuple[str, Signature]]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the outcomes of the kernels that the PTX of a program holds."""
    try:
        module = parse(program.ptx, program.name)
    except RdmodelError as error:
        return {(file, kernel.name): ("not parsed", type(error).__name__) for file, kernel in kernels}
    found = {}
    for file, kernel in kernels:
        entry = next((name for name in module.kernels if _has_name(name, kernel.name)), None)
        if entry is not None:
            found[file, kernel.name] = _judge_entry(module, entry)
    return found


def _judge_templates(
    source: Source, kernels: Sequence[tuple[str, Signature]]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Compile templates with the arguments of a launch in the source or with examples; together if that succeeds."""
    launched = find_launched_kernels(source.text)
    candidates = {(file, kernel.name): instances(kernel, launched) for file, kernel in kernels}
    firsts = {key: names[0] for key, names in candidates.items() if names}
    if len(firsts) > 1:
        try:
            program = _compile(source, list(firsts.values()))
            module = parse(program.ptx, program.name)
            return {key: _judge_entry(module, program.find(module.kernels, name)) for key, name in firsts.items()}
        except RdmodelError:
            pass
    return {key: _judge_template(source, names) for key, names in candidates.items()}


def instances(kernel: Signature, launched: Iterable[str]) -> list[str]:
    """Return instances of a template to try: those that the source launches, with examples for names of the host."""
    example = _arguments(kernel.example) if kernel.example else []
    found: list[str] = []
    for name in launched:
        if re.match(rf"(?:\w+::)*{kernel.name}<", name):
            given = _arguments(name)
            known = [a if _KNOWN.fullmatch(a) or at >= len(example) else example[at] for at, a in enumerate(given)]
            found += [f"{name.partition('<')[0]}<{','.join(known)}>", name]
    return list(dict.fromkeys([*found[:4], *([kernel.example] if kernel.example else [])]))


def _arguments(instance: str) -> list[str]:
    """Return the template arguments of ``name<a, b<c>>``."""
    parts, depth = [""], 0
    for letter in instance.partition("<")[2][:-1]:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _judge_template(source: Source, names: Sequence[str]) -> tuple[str, str]:
    """Return the outcome of the first instance that compiles, or the class of the last failure."""
    failure = ("template", "no arguments known")
    for instance in names:
        try:
            program = _compile(source, [instance])
            module = parse(program.ptx, program.name)
            return _judge_entry(module, program.find(module.kernels, instance))
        except CompileError as error:
            failure = ("template", classify_log(str(error))[0])
        except RdmodelError as error:
            failure = ("not parsed", type(error).__name__)
    return failure


def _judge_entry(module: Module, entry: str) -> tuple[str, str]:
    try:
        addresses = {v.name: 0 for v in module.variables.values()}
        steps = lower_kernel(module, entry, addresses, 0).steps
    except RdmodelError as error:
        return "not parsed", type(error).__name__
    stopping = {step.reason.partition(" ")[0] for step in steps if step.op == "TRAP" and "cannot" in step.reason}
    calls = [step.reason for step in steps if step.op == "TRAP" and step.reason.startswith(_CALL)]
    stopping |= {reason.partition(":")[0].removeprefix(_CALL).replace(" ", "_") for reason in calls}
    return (STOPS, " ".join(sorted(stopping))) if stopping else (EXECUTABLE, "")


def _has_name(entry: str, name: str) -> bool:
    try:
        return find_kernel([entry], name) == entry
    except RdmodelError:
        return False
