"""What a missing optional package says: the line that installs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from glong.errors import ConfigError

__all__ = ["extra"]


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of an optional dependency.

    Args:
        name: the extra of glong that has it, such as ``models``.

    Raises:
        ConfigError: a package is missing; names the pip line.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(f'{error}. Install it with: pip install "glong[{name}]"') from error
