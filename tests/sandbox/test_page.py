import re


def test_an_empty_sandbox_says_so(caller):
    assert "Nothing is stored." in caller.http.get(caller.sandbox.address).text


def test_page_shows_each_asset_with_its_state(make_caller, clock, picture):
    caller = make_caller(clock=clock, index_delay=60)
    assetid = caller.uploaded("dawn.png", picture(30, 20, 1234), meta_location="Köln")
    caller.raw(caller.fields() + caller.file_header("cut.bin") + b"half")
    text = caller.http.get(caller.sandbox.address).text
    (asset, damaged) = caller.sandbox.assets()
    for part in ("dawn.png", f'<img src="/_sandbox/file/{assetid}"', "1,234", asset.md5, "SyncA", "Köln"):
        assert part in text
    assert text.count("damaged</strong>") == 1
    assert text.index(damaged.id) < text.index(asset.id)
    assert "not indexed" in text


def test_every_text_from_outside_is_escaped(caller):
    name = "<img src=x onerror=alert(1)>.txt"
    folder = caller.sandbox.create_folder("<b>bold</b>")
    caller.upload(name, destfolderid=folder, **{"meta_<i>": "<script>alert(2)</script>"})
    text = caller.http.get(caller.sandbox.address).text
    assert not re.search("<(img src=x|b>|i>|script)", text)
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in text


def test_page_works_without_scripts(caller):
    answer = caller.http.get(caller.sandbox.address)
    assert "<script" not in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_page_is_light_or_dark(caller):
    text = caller.http.get(caller.sandbox.address).text
    assert "color-scheme: light dark" in text
    assert "prefers-color-scheme: dark" in text


def test_a_hundred_assets_are_a_page(caller):
    for number in range(101):
        caller.upload(f"{number:03}.txt", b"x")
    first = caller.http.get(caller.sandbox.address).text
    second = caller.http.get(f"{caller.sandbox.address}/?start=100").text
    assert (first.count("<tr><td>"), second.count("<tr><td>")) == (100, 1)
    assert 'href="?start=100"' in first
    assert 'href="?start=0"' in second
