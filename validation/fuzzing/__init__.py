"""Coverage-guided fuzzing of everything that reads a file: no input may do more than raise an error of rdmodel.

``python -m validation.fuzzing --inputs 1000000 --reader nvbit`` builds the compiled parsers once more, so that they
tell which edges of their code an input takes (`build`), and starts a process that reads inputs (`worker`). An input is
a case: the files that a reader is given, by name. New ones come from old ones by `mutation`, and by what knows the form
of a binary file (`shaping`); those that reach an edge, or a count of it, that none has reached before are kept and
changed again. Lines of the readers that are Python count as edges, too.

What must hold of every input (`readers`, `laws`):

* The reader returns something sound, or raises one of `rdmodel.errors` with a message of one line. Warnings count as
  exceptions, and so does memory beyond the limit.
* What it returned is the same whatever the size of its buffers; written and read back, it is the same again.
* It takes less than a second of the processor, and the memory of the process does not grow by more than 64 MiB.

A crash or a hang ends the worker; the process that started it keeps the input. What was found is made smaller and
written to ``--findings``. All is repeatable from ``--seed``; `RESULTS.md` has the runs that were recorded.
"""
