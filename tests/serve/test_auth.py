import base64
from pathlib import Path

import pytest

from glong.errors import ConfigError
from serve.auth import (
    DEFAULT_TENANT,
    KeyEntry,
    Keys,
    Peer,
    key_hash,
    load_keys,
    main,
    new_key,
)
from serve.errors import ProblemError

KEYS = Keys((KeyEntry("acme", key_hash("one")), KeyEntry("other", key_hash("two"))))


def status_of(keys: Keys, peer: Peer) -> int:
    with pytest.raises(ProblemError) as caught:
        keys.tenant_of(peer)
    return caught.value.problem.status


@pytest.mark.parametrize(("key", "tenant"), [("one", "acme"), ("two", "other")])
def test_a_key_names_its_tenant_wherever_the_peer_is(key: str, tenant: str) -> None:
    assert KEYS.tenant_of(Peer("203.0.113.9", f"Bearer {key}")) == tenant
    assert KEYS.tenant_of(Peer("203.0.113.9", f"bearer  {key} ")) == tenant


def test_browsers_send_the_key_as_the_password_of_basic() -> None:
    given = base64.b64encode(b"anyone:two").decode()
    assert KEYS.tenant_of(Peer("203.0.113.9", f"Basic {given}")) == "other"


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer three", "Bearer one two", "one", "Basic ???", "Basic b25l"]
)
def test_any_other_key_is_401_even_from_loopback(header: str) -> None:
    assert status_of(KEYS, Peer("127.0.0.1", header, "localhost")) == 401


def test_a_stored_hash_is_no_key() -> None:
    assert status_of(KEYS, Peer("127.0.0.1", f"Bearer {KEYS.entries[0].sha256}")) == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_without_keys_this_machine_is_the_default_tenant(host: str) -> None:
    assert Keys().tenant_of(Peer(host, "", "localhost:8000")) == DEFAULT_TENANT


@pytest.mark.parametrize("host", ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", "", "localhost"])
def test_without_keys_other_peers_get_403(host: str) -> None:
    assert status_of(Keys(), Peer(host, "Bearer one", "localhost")) == 403


def test_without_keys_a_foreign_name_that_resolves_to_loopback_gets_403() -> None:
    assert status_of(Keys(), Peer("127.0.0.1", "", "evil.example:8000")) == 403


def test_keys_are_read_from_a_file_that_holds_hashes_only(tmp_path: Path) -> None:
    key, path = new_key(), tmp_path / "keys.toml"
    path.write_text(f'[[keys]]\ntenant = "acme"\nsha256 = "{key_hash(key)}"\n')
    assert key not in path.read_text()
    assert load_keys(str(path)).tenant_of(Peer("203.0.113.9", f"Bearer {key}")) == "acme"
    assert new_key() != key
    assert len(key) > 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one \\[\\[keys\\]\\] table or more"),
        ("keys = 3", "one \\[\\[keys\\]\\] table or more"),
        ("[other]\n[[keys]]\n", "one \\[\\[keys\\]\\] table or more"),
        ('[[keys]]\ntenant = "a"\n', "'sha256' is missing"),
        ('[[keys]]\ntenant = "a/b"\nsha256 = "x"\n', "tenant is 'a/b'"),
        ('[[keys]]\ntenant = "a"\nsha256 = "glong-secret"\n', "64 lower-case hexadecimal"),
        ('[[keys]]\ntenant = "a"\nsha256 = "x"\nkey = "y"\n', "unknown key 'key'"),
    ],
)
def test_a_keys_file_is_read_strictly_and_no_message_quotes_a_key(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_keys(str(path))
    assert "glong-secret" not in str(caught.value)


def test_a_key_is_made_and_shown_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["acme"]) == 0
    shown = capsys.readouterr()
    key = shown.err.split()[-1]
    assert key not in shown.out
    (tmp_path / "keys.toml").write_text(shown.out)
    keys = load_keys(str(tmp_path / "keys.toml"))
    assert keys.tenant_of(Peer("203.0.113.9", f"Bearer {key}")) == "acme"
    assert main(["a b"]) == 2
