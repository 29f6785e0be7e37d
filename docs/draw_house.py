"""Draw the floors of the table in house.md: `python docs/draw_house.py` writes house.svg."""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
PAGE, FIGURE = DOCS / "house.md", DOCS / "house.svg"

WIDTH, MARGIN = 760, 30
TOP = 96  # the roof is above
LINE, PADDING = 16, 12
LETTERS_PER_ROOM_WIDTH = 8.2  # pixels per letter at the size of a room's name
NOTE_LETTERS = 100  # letters of a note in one line

STYLE = """
    .house { fill: #fdfcf8; stroke: #555; stroke-width: 2 }
    .floor { stroke: #bbb; stroke-width: 1 }
    .room { fill: #e6eef5; stroke: #4a6a85 }
    .engine { fill: #f5e9dc; stroke: #8a6238 }
    .tracegen { fill: #e8f1e4; stroke: #55773f }
    .number { fill: #777; font-size: 12px; text-anchor: start }
    .note { fill: #555; font-size: 12px }
    text { fill: #222 }
"""
ROOM_STYLES = {"model": "engine", "simulator": "engine", "tracegen": "tracegen"}


def floors(text: str) -> list[tuple[int, list[str], str]]:
    """Return (floor, rooms, subject) of every row of the table of floors, the highest first."""
    _, _, table = text.partition("<!-- checked: floors -->\n")
    rows = [line.split("|")[1:-1] for line in table.partition("\n\n")[0].splitlines()[2:]]
    return [(int(number), re.findall(r"`(\w+)`", rooms), subject.strip()) for number, rooms, subject, _ in rows]


def draw(text: str) -> str:
    """Return the figure of the floors that a page lists."""
    y, parts = TOP, []
    for number, rooms, subject in floors(text):
        notes = textwrap.wrap(re.sub(r"`", "", subject), NOTE_LETTERS)
        height = 28 + LINE * len(notes) + PADDING
        parts += _floor(number, rooms, notes, y)
        y += height
    outline = f"M{MARGIN} {TOP} L{WIDTH // 2} 12 L{WIDTH - MARGIN} {TOP} L{WIDTH - MARGIN} {y} L{MARGIN} {y} z"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" role="img" '
            'aria-labelledby="title" font-family="sans-serif" font-size="14" text-anchor="middle">',
            '  <title id="title">The floors of rdmodel: imports go down only</title>',
            f"  <style>{STYLE}  </style>",
            f'  <path class="house" d="{outline}"/>',
            f'  <text x="{WIDTH // 2}" y="72">imports go down only</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _floor(number: int, rooms: list[str], notes: list[str], y: int) -> list[str]:
    parts = [
        f'  <path class="floor" d="M{MARGIN} {y} H{WIDTH - MARGIN}"/>',
        f'  <text class="number" x="{MARGIN + 10}" y="{y + 25}">{number}</text>',
    ]
    widths = [round(LETTERS_PER_ROOM_WIDTH * len(room)) + 18 for room in rooms]
    x = (WIDTH - sum(widths) - 8 * (len(rooms) - 1)) // 2
    for room, width in zip(rooms, widths, strict=True):
        style = ROOM_STYLES.get(room, "room")
        parts.append(f'  <rect class="{style}" x="{x}" y="{y + 8}" width="{width}" height="24" rx="4"/>')
        parts.append(f'  <text x="{x + width // 2}" y="{y + 25}">{escape(room)}</text>')
        x += width + 8
    for at, note in enumerate(notes):
        parts.append(f'  <text class="note" x="{WIDTH // 2}" y="{y + 46 + LINE * at}">{escape(note)}</text>')
    return parts


if __name__ == "__main__":
    FIGURE.write_text(draw(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
