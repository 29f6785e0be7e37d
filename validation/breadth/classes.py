"""Classify a failed compilation by the first error in the log of the compiler."""

from __future__ import annotations

import re

_PATTERNS: tuple[tuple[str, str], ...] = (
    (r'(?:could not|cannot) open source file "([^"]+)"', "missing header"),
    (r"#error directive", "#error"),
    (r'(?:identifier|type name) "(?:texture|surface|tex\w+|surf\w+)" is undefined', "texture reference"),
    (r'identifier "([^"]+)" is undefined', "undeclared name"),
    (r'(?:namespace|class) "([^"]+)" has no (?:actual )?member', "undeclared name"),
    (r'variable "([^"]+)" has already been defined', "declared twice"),
    (r'no instance of (?:overloaded )?function "([^"]+)" matches', "undeclared name"),
    (r"name must be a namespace name|must be a class or namespace name", "undeclared name"),
    (r"is not a template|not a class or struct", "undeclared name"),
    (r"asm |inline assembly", "inline assembly"),
)
"""Patterns of error messages with their classes, in order; a group is the name that the message is about."""

OTHER = "other error"
"""Class of messages that match no pattern."""


def classify_log(log: str) -> tuple[str, str]:
    """Return the class of the first error in a log, and the name that it is about, or the message without names."""
    errors = [line for line in log.splitlines() if "error" in line]
    first = errors[0] if errors else log.partition("\n")[0]
    message = re.sub(r"^.*?\berror\s*(?:#\S+)?:\s*", "", first)
    for pattern, name in _PATTERNS:
        found = re.search(pattern, message)
        if found:
            return name, found[1] if found.groups() else ""
    return OTHER, re.sub(r'\s*"[^"]*"', ' "..."', message)[:80]
