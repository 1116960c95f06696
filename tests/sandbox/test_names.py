import pytest

from assetsync.sandbox.store import extension_of, filetype_of, picture_size, rewritten


@pytest.mark.parametrize(
    ("name", "filetype"),
    [
        ("a.JPG", "img"),
        ("a.mov", "vid"),
        ("a.mp3", "aud"),
        ("a.pdf", "doc"),
        ("a.zip", "other"),
        ("a", "other"),
        (".jpg", "img"),
    ],
)
def test_the_filetype_follows_the_extension(name, filetype):
    assert filetype_of(extension_of(name), {}) == filetype


def test_a_name_is_rewritten_as_observed():
    assert rewritten("in zip Ä.jpg") == "in_zip_A.jpg"


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00\x00\x00\x00\x50", (256, 80)),
        (b"GIF89a\x40\x01\xc8\x00", (320, 200)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x3c\x00\x50\x03", (80, 60)),
        (b"\xff\xd8\xff\xc4\x00\x02\xff\xc2\x00\x11\x08\x00\x01\x00\x02\x03", (2, 1)),
        (b"\xff\xd8\xff\xe0", (0, 0)),
        (b"\x89PNG\r\n\x1a\n", (0, 0)),
        (b"anything", (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_picture_size_comes_from_first_bytes(head, size):
    assert picture_size(head) == size
