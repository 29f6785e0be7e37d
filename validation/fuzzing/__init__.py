"""Fuzz all readers of files, guided by coverage: no input may do more than raise an error of rdmodel.

``python -m validation.fuzzing --inputs 1000000 --reader nvbit`` builds the compiled parsers and the emulator again,
with code that reports the edges that an input takes (`build`), and starts a process that reads inputs (`worker`). An
input is a case: the files of one call of a reader, by name. New cases are changed copies of old ones; `mutation`
changes bytes, and `shaping` changes binary files within their format. Cases that reach a new edge, or a new count of an
edge, are kept and changed again. Lines of readers in Python count as edges, too.

Laws for every input (`readers`, `laws`):

* The reader returns a valid result, or raises one of `rdmodel.errors` with a message of one line. Warnings count as
  exceptions, and so does memory beyond the limit.
* The result does not depend on the size of the buffers, and does not change when it is written and read back.
* Reading takes less than a second of processor time, and the memory of the process does not grow by more than 64 MiB.

A crash or a hang ends the worker; the process that started it keeps the input. Inputs that break a law are minimized
and written to ``--findings``. Equal values of ``--seed`` give equal inputs. `RESULTS.md` has the recorded runs.
"""
