"""Make the sample tree: drawn pictures, a PDF, texts, a ZIP, and sidecars with values that look like other types.

This module needs Pillow, from the extra `assetsync[sandbox]`. The configuration in `stage` maps the folders.
"""

import io
import os
import random
import zipfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

_SIZE = (960, 640)

_SIDECARS = {
    "photos/_folder.yaml": "keywords: [coast, sample]\nlocation: Tromsø, NO\n",
    "photos/harbour.jpg.yaml": (
        "description: The old harbour at dawn\n"
        "keywords: [harbour, dawn, 2026]\n"
        # Texts that YAML would read as a boolean, a number, a time and a date.
        "meta: {country: NO, scene: 012, title: 12:30, datecreated: 2026-01-01}\n"
    ),
    "documents/_folder.yaml": "keywords: papers\n",
    "documents/report.pdf.yaml": "description: Report 007\nlanguage: 1\nkeywords: [012, NO]\n",
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
    photos = root / "photos"
    _draw(photos / "harbour.jpg", "#3c508c", "#fab478", "#ffe196", ("#284670",))
    _draw(photos / "mountains.jpg", "#5a96dc", "#dcebf5", "#fffae6", ("#96a5be", "#5f7882", "#325546"))
    _draw(photos / "town.png", "#78b4e6", "#ebf0f5", "#fffae6", ("#c8503c", "#787873"))
    _draw(photos / "2026/sunrise.jpg", "#5a3c78", "#ff9650", "#ffdc78", ("#463250", "#281e32"))
    (root / "documents/report.pdf").write_bytes(_pdf("Report 007", "The harbour, seen from the hill"))
    (root / "documents/archive.zip").write_bytes(_zip(_TEXTS))


def change_tree(root: Path) -> list[str]:
    """Change a file, move a file, touch a file and add two; return a sentence for each."""
    with (root / "documents/notes.txt").open("a", encoding="utf-8") as notes:
        notes.write("And again at 17:55.\n")
    (root / "photos/town.png").rename(root / "photos/2026/old town.png")
    os.utime(root / "photos/mountains.jpg")
    _draw(root / "photos/2026/night.jpg", "#05081e", "#1e2850", "#f5f0e6", ("#0a0f19",))
    (root / "documents/minutes.txt").write_text("Minutes: the harbour was looked at.\n", "utf-8")
    return [
        "changed documents/notes.txt",
        "moved photos/town.png to photos/2026/old town.png",
        "touched photos/mountains.jpg",
        "added photos/2026/night.jpg",
        "added documents/minutes.txt",
    ]


def _draw(path: Path, top: str, bottom: str, disc: str, hills: Sequence[str]) -> None:
    """Draw a landscape: a sky from one colour to another, a sun or moon, and chains of hills, the farthest first."""
    picture = ImageOps.colorize(Image.linear_gradient("L").resize(_SIZE), black=top, white=bottom)
    draw = ImageDraw.Draw(picture)
    chance = random.Random(path.name)  # noqa: S311 - where the disc and the hills are
    draw.circle((chance.randint(200, _SIZE[0] - 200), 120), 60, fill=disc)
    for number, colour in enumerate(hills, start=2):
        tops = [(x, 160 * number - chance.randint(0, 120)) for x in range(0, _SIZE[0] + 120, 120)]
        draw.polygon([(0, _SIZE[1]), *tops, (_SIZE[0] + 120, _SIZE[1])], fill=colour)
    picture.save(path)


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
