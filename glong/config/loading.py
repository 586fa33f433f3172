"""Plain values -> settings, strictly: an unknown key, a wrong type or a missing key is an error."""

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from glong.errors import ConfigError

__all__ = ["from_mapping", "load_toml", "require"]

T = TypeVar("T")


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """Refuse a setting's value.

    Raises:
        ConfigError: the condition does not hold.
    """
    if not condition:
        raise ConfigError(f"{name} is {value!r}; allowed: {allowed}.")


def from_mapping(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Build a settings dataclass from plain values, strictly.

    Args:
        kind: a dataclass of settings.
        values: keys and values as TOML or JSON give them; nested tables for nested dataclasses.
        where: what to name in an error, such as ``models.toml [extractor]``.

    Raises:
        ConfigError: an unknown key, a wrong type, a missing key, or a value out of range.
    """
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ConfigError(
            f"{where}: unknown key {unknown[0]!r}; allowed: {', '.join(sorted(fields))}."
        )
    made: dict[str, Any] = {}
    for name, value in values.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{where}: {name} is {value!r}; allowed: a table of settings.")
            made[name] = from_mapping(typing.cast(type[Any], hint), value, f"{where} [{name}]")
        else:
            made[name] = _checked_type(value, hint, f"{where}: {name}")
    missing = [
        name
        for name, f in fields.items()
        if name not in made
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: {missing[0]!r} is missing; add it.")
    return kind(**made)


def _checked_type(value: Any, hint: type[Any], where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise ConfigError(f"{where} is {value!r}; allowed: a value of type {hint.__name__}.")
    return value


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from error
