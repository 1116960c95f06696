"""Make the sample tree: drawn pictures, a PDF, texts, a ZIP, and sidecars with values that look like other types.

This module needs Pillow, from the extra `assetsync[sandbox]`. The configuration in `stage` maps the folders.
"""

import io
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

_SIZE = (960, 640)
_HORIZON = 400

_SIDECARS = {
    "photos/_folder.yaml": "keywords: [coast, sample]\nlocation: Tromsø, NO\n",
    "photos/harbour.jpg.yaml": (
        "description: The old harbour at dawn\n"
        "keywords: [harbour, dawn, 2026]\n"
        # Texts that YAML would read as a boolean, a number, a time and a date.
        "meta: {img_country: NO, img_roll: 012, img_taken: 12:30, img_day: 2026-01-01}\n"
    ),
    "documents/_folder.yaml": "keywords: papers\n",
    "documents/report.pdf.yaml": "description: Report 007\nlanguage: 1\nmeta: {file_number: 012, file_final: NO}\n",
}
_TEXTS = {
    "documents/notes.txt": "Notes on the harbour\n\nThe tide turns at 05:40.\n",
    "documents/boats.csv": "name,length\nAurora,12\nNordlys,9\n",
}


def make_tree(root: Path) -> None:
    """Make the sample tree below `root`, a folder that does not exist yet."""
    for folder in ("photos/2026", "documents"):
        (root / folder).mkdir(parents=True)
    for name, text in (_SIDECARS | _TEXTS).items():
        (root / name).write_text(text, "utf-8")
    _save(root / "photos/harbour.jpg", _harbour)
    _save(root / "photos/mountains.jpg", _mountains)
    _save(root / "photos/town.png", _town)
    _save(root / "photos/2026/sunrise.jpg", _sunrise)
    (root / "documents/report.pdf").write_bytes(_pdf("Report 007", "The harbour, seen from the hill"))
    (root / "documents/archive.zip").write_bytes(_zip(_TEXTS))


def change_tree(root: Path) -> list[str]:
    """Change a file, move a file, touch a file and add two; return a sentence for each."""
    with (root / "documents/notes.txt").open("a", encoding="utf-8") as notes:
        notes.write("And again at 17:55.\n")
    (root / "photos/town.png").rename(root / "photos/2026/old town.png")
    os.utime(root / "photos/mountains.jpg")
    _save(root / "photos/2026/night.jpg", _night)
    (root / "documents/minutes.txt").write_text("Minutes: the harbour was looked at.\n", "utf-8")
    return [
        "changed documents/notes.txt",
        "moved photos/town.png to photos/2026/old town.png",
        "touched photos/mountains.jpg",
        "added photos/2026/night.jpg",
        "added documents/minutes.txt",
    ]


def _save(path: Path, draw: Callable[[ImageDraw.ImageDraw], None]) -> None:
    picture = Image.new("RGB", _SIZE)
    draw(ImageDraw.Draw(picture))
    picture.save(path)


def _sky(draw: ImageDraw.ImageDraw, top: Colour, bottom: Colour, height: int = _SIZE[1]) -> None:
    """Fill the upper `height` pixels with a gradient."""
    for y in range(height):
        share = y / height
        colour = tuple(round(a + (b - a) * share) for a, b in zip(top, bottom, strict=True))
        draw.line([(0, y), (_SIZE[0], y)], fill=colour)


def _disc(draw: ImageDraw.ImageDraw, x: int, y: int, radius: int, colour: Colour) -> None:
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)


def _ridge(draw: ImageDraw.ImageDraw, base: int, height: int, colour: Colour, seed: int) -> None:
    """Draw a chain of hills across the picture, filled down to the bottom."""
    chance = random.Random(seed)  # noqa: S311 - the shape of a hill
    points = [(x, base - chance.randint(height // 4, height)) for x in range(0, _SIZE[0] + 120, 120)]
    draw.polygon([(0, _SIZE[1]), *points, (_SIZE[0], _SIZE[1])], fill=colour)


def _water(draw: ImageDraw.ImageDraw, colour: Colour, light: Colour) -> None:
    draw.rectangle([0, _HORIZON, *_SIZE], fill=colour)
    chance = random.Random(7)  # noqa: S311 - where the waves glitter
    for _ in range(160):
        y = chance.randint(_HORIZON + 5, _SIZE[1])
        x = chance.randint(0, _SIZE[0])
        draw.line([(x, y), (x + (y - _HORIZON) // 3, y)], fill=light, width=2)


def _boat(draw: ImageDraw.ImageDraw, x: int, y: int, size: int, colour: Colour) -> None:
    draw.polygon(
        [(x - size, y), (x + size, y), (x + size * 2 // 3, y + size // 3), (x - size * 2 // 3, y + size // 3)],
        fill=colour,
    )
    draw.line([(x, y), (x, y - size * 3 // 2)], fill=colour, width=4)
    draw.polygon([(x + 6, y - size * 3 // 2), (x + 6, y - 8), (x + size * 4 // 5, y - 8)], fill=(245, 240, 230))


def _house(draw: ImageDraw.ImageDraw, x: int, ground: int, height: int, colour: Colour) -> None:
    draw.rectangle([x, ground - height, x + 90, ground], fill=colour)
    draw.polygon(
        [(x - 8, ground - height), (x + 45, ground - height - 50), (x + 98, ground - height)], fill=(90, 45, 40)
    )
    for row in range(2):
        for column in range(2):
            left, top = x + 16 + 36 * column, ground - height + 18 + 44 * row
            draw.rectangle([left, top, left + 22, top + 26], fill=(250, 225, 140))


def _harbour(draw: ImageDraw.ImageDraw) -> None:
    _sky(draw, (60, 80, 140), (250, 180, 120), _HORIZON)
    _disc(draw, 700, 340, 50, (255, 225, 150))
    _water(draw, (40, 70, 110), (240, 190, 140))
    for x, y, size in ((180, 450, 60), (420, 500, 90), (760, 440, 45)):
        _boat(draw, x, y, size, (110, 40, 40))


def _mountains(draw: ImageDraw.ImageDraw) -> None:
    _sky(draw, (90, 150, 220), (220, 235, 245))
    for base, height, colour, seed in (
        (420, 320, (150, 165, 190), 1),
        (520, 260, (95, 120, 130), 2),
        (620, 180, (50, 85, 70), 3),
    ):
        _ridge(draw, base, height, colour, seed)


def _town(draw: ImageDraw.ImageDraw) -> None:
    _sky(draw, (120, 180, 230), (235, 240, 245))
    draw.rectangle([0, 520, *_SIZE], fill=(120, 120, 115))
    colours: tuple[Colour, ...] = ((200, 80, 60), (225, 175, 75), (80, 130, 160), (235, 230, 220))
    for position, x in enumerate(range(20, 900, 115)):
        _house(draw, x, 520, 150 + 37 * (position * 5 % 4), colours[position % len(colours)])


def _sunrise(draw: ImageDraw.ImageDraw) -> None:
    _sky(draw, (90, 60, 120), (255, 150, 80), _HORIZON)
    _disc(draw, 480, _HORIZON, 110, (255, 220, 120))
    _water(draw, (70, 50, 90), (255, 190, 110))


def _night(draw: ImageDraw.ImageDraw) -> None:
    _sky(draw, (5, 8, 30), (30, 40, 80))
    chance = random.Random(4)  # noqa: S311 - where the stars are
    for _ in range(120):
        _disc(draw, chance.randint(0, _SIZE[0]), chance.randint(0, 420), chance.randint(1, 2), (240, 240, 220))
    _disc(draw, 760, 130, 55, (240, 235, 210))
    _disc(draw, 785, 118, 50, (9, 13, 38))
    _ridge(draw, 600, 160, (10, 15, 25), 5)


def _pdf(title: str, line: str) -> bytes:
    """Return a PDF of one page."""
    page = f"BT /F1 24 Tf 72 720 Td ({title}) Tj 0 -36 Td /F1 14 Tf ({line}) Tj ET".encode("ascii")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R"
            b" /Resources << /Font << /F1 4 0 R >> >> >>"
        ),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(page), page),
    ]
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, text in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    at = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, at)
    return bytes(out)


def _zip(texts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name.rpartition("/")[2], text)
    return out.getvalue()
