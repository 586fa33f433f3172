"""Who asks: bearer keys -> tenants; without keys, the one tenant of this machine.

Keys are made by :func:`new_key` (256 random bits, so a plain hash is enough) and stored as SHA-256
only. Every stored hash is compared, each in constant time. Pure but for reading the file.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glong.config import from_mapping, load_toml
from glong.errors import ConfigError
from serve.errors import Problem, ProblemError

__all__ = [
    "DEFAULT_TENANT",
    "OPEN_PATHS",
    "Keys",
    "Peer",
    "key_hash",
    "load_keys",
    "main",
    "new_key",
]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
DEFAULT_TENANT = "default"
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_UNKNOWN = Problem(
    401, "unauthorized", "The key is missing or not known.",
    "Send the header `Authorization: Bearer KEY`.",
)  # fmt: skip
_NOT_LOCAL = Problem(
    403, "forbidden", "This service has no keys and answers its own machine only.",
    "Its operator sets GLONG_KEYS_FILE to let others in.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One key: SHA-256 of it in hexadecimal, and whose it is."""

    tenant: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known of who sent a request; ``host`` is the address, ``named`` the Host header."""

    host: str
    authorization: str = ""
    named: str = ""


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys; none means that only this machine is answered."""

    entries: tuple[KeyEntry, ...] = ()

    def tenant_of(self, peer: Peer) -> str:
        """Whose request this is.

        Raises:
            ProblemError: 401 for an unknown key, 403 for a peer elsewhere where there are no keys.
        """
        if not self.entries:
            if _is_loopback(peer.host) and _names_this_machine(peer.named):
                return DEFAULT_TENANT
            raise ProblemError(_NOT_LOCAL)
        given = key_hash(_key_in(peer.authorization))
        found = ""
        for entry in self.entries:  # all of them, so that time says nothing of the place
            if hmac.compare_digest(entry.sha256, given):
                found = entry.tenant
        if not found:
            raise ProblemError(_UNKNOWN)
        return found


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _names_this_machine(host: str) -> bool:
    """Whether the Host header names this machine.

    A web page elsewhere can have its own name resolve to loopback and so read memories through a
    browser here; its name still stands in the header.
    """
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    return name.lower() in _LOCAL_NAMES


def _key_in(authorization: str) -> str:
    """The key of a ``Bearer`` header, or the password of a ``Basic`` one (what browsers send)."""
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return ""
        return decoded.partition(":")[2]
    return ""


def key_hash(key: str) -> str:
    """What a keys file stores of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def new_key() -> str:
    """A fresh key; shown once, stored nowhere."""
    return "glong-" + secrets.token_urlsafe(32)


def load_keys(path: str) -> Keys:
    """Read a keys file: TOML with one ``[[keys]]`` table of ``tenant`` and ``sha256`` each.

    Raises:
        ConfigError: it cannot be read, has no key, or an entry is not of that form.
    """
    values = load_toml(Path(path))
    raw = values.pop("keys", [])
    if values or not isinstance(raw, list) or not raw:
        allowed = "one [[keys]] table or more, each with tenant and sha256"
        raise ConfigError(
            f"{path}: allowed: {allowed}. Make one with `python -m serve.auth TENANT`."
        )
    return Keys(tuple(_entry(value, f"{path} [[keys]] {i}") for i, value in enumerate(raw, 1)))


def _entry(value: object, where: str) -> KeyEntry:
    entry = from_mapping(KeyEntry, value if isinstance(value, dict) else {}, where)
    if not _TENANT.fullmatch(entry.tenant):
        allowed = "1 to 64 letters, digits, dots, hyphens, underscores; a letter or digit first"
        raise ConfigError(f"{where}: tenant is {entry.tenant!r}; allowed: {allowed}.")
    if not _SHA256.fullmatch(entry.sha256):
        raise ConfigError(f"{where}: sha256 is not 64 lower-case hexadecimal digits.")
    return entry


def main(argv: Sequence[str]) -> int:
    """Make a key: it goes to standard error, once; its entry for the keys file to standard out."""
    if len(argv) != 1 or not _TENANT.fullmatch(argv[0]):
        print("usage: python -m serve.auth TENANT >> keys.toml", file=sys.stderr)
        return 2
    key = new_key()
    print(f'[[keys]]\ntenant = "{argv[0]}"\nsha256 = "{key_hash(key)}"')
    print(f"The key of {argv[0]}, shown only now: {key}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
