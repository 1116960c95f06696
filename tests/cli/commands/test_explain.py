"""`explain` of a file that waits: what the next try will decide. Other outputs are tested in test_files."""


def test_broken_sidecar_is_foreseen(site):
    site.write("a.jpg", b"content")
    site.nowhere()
    site.run("reconcile", "--wait", "0s")
    site.write("a.jpg.yaml", b"keywords: [")
    (version,) = site.run("explain", "photos/a.jpg", "--json").objects[0]["versions"]
    assert version["next_try_reason"] == "sidecar"
    assert "it will be blocked: photos/a.jpg.yaml" in version["next_try_detail"]
