"""The viewer's files over HTTP."""

import re
from pathlib import Path

import pytest

import serve.pages
from serve.auth import Keys
from serve.pages import POLICY
from tests.serve.conftest import Client, MakeClient

FOLDER = Path(serve.pages.__file__).parent / "viewer"
ASSETS = sorted(path.name for path in FOLDER.iterdir() if path.name != "index.html")
OURS = [name for name in ASSETS if not name.startswith("cytoscape")]
KINDS = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


def test_the_page_needs_no_key_and_runs_nothing_from_elsewhere(shared: Client) -> None:
    page = shared("GET", "/", key="")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == POLICY
    assert POLICY.startswith("default-src 'self'")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|https?:", page.text)
    named = set(re.findall(r'(?:src|href)="viewer/([^"]+)"', page.text))
    assert named
    assert named <= set(ASSETS)


@pytest.mark.parametrize("name", ASSETS)
def test_every_file_is_served_with_its_type(shared: Client, name: str) -> None:
    response = shared("GET", f"/viewer/{name}", key="")
    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == KINDS[Path(name).suffix]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == POLICY
    assert response.content == (FOLDER / name).read_bytes()


@pytest.mark.parametrize(
    "name",
    ["..%2Fapi.py", "%2e%2e%2fapi.py", "..%5Capi.py", "index.html", "app.js%00", ".", "nothing"],
)
def test_no_other_file_can_be_named(shared: Client, name: str) -> None:
    assert shared("GET", f"/viewer/{name}", key="").status_code == 401
    assert shared("GET", f"/viewer/{name}").status_code == 404


def test_without_keys_the_page_too_is_for_this_machine_only(make_client: MakeClient) -> None:
    elsewhere = make_client(keys=Keys(), peer="10.0.0.7")
    assert elsewhere("GET", "/").status_code == 403
    assert elsewhere("GET", "/viewer/app.js").status_code == 403


@pytest.mark.parametrize("name", OURS)
def test_our_files_put_text_in_as_text_and_ask_nobody_else(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|localStorage|cookie"
    )
    assert not re.search(forbidden, text)
    assert set(re.findall(r"https?://[^\"'\s>]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_every_import_of_a_script_is_served() -> None:
    for name in OURS:
        imports = re.findall(r'from "\./([^"]+)"', (FOLDER / name).read_text(encoding="utf-8"))
        assert set(imports) <= set(ASSETS), name


def test_the_library_comes_with_its_licence() -> None:
    assert "The Cytoscape Consortium" in (FOLDER / "cytoscape.LICENSE.txt").read_text("utf-8")
