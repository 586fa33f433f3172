"""The one error tree of glong.

::

    GlongError
    ├── ConfigError          a setting, option or extra is wrong; nothing was started
    ├── SourceError          an input cannot be read at all
    ├── ModelError           a model or endpoint failed (``retryable``, ``hint``)
    ├── StoreError           the store cannot be read or written
    │   ├── SchemaError      it was made with another schema, encoder or format
    │   ├── ConflictError    another writer was faster
    │   └── StoreNotFoundError  there is none (a NotFoundError too)
    └── NotFoundError        no such tenant, dialogue, session or edge

One bad *item* (a broken line, a turn no model could read) is not an exception: it is a stored
:class:`glong.types.Failure`. What is raised here stops the call or the job.
"""

__all__ = [
    "ConfigError",
    "ConflictError",
    "GlongError",
    "ModelError",
    "NotFoundError",
    "SchemaError",
    "SourceError",
    "StoreError",
    "StoreNotFoundError",
]


class GlongError(Exception):
    """Base of every error that glong raises on purpose."""


class ConfigError(GlongError):
    """A setting, an option or a missing extra: found before any work."""


class SourceError(GlongError):
    """An input cannot be opened or is not what it was said to be."""


class ModelError(GlongError):
    """A model or an endpoint failed as a whole.

    Attributes:
        retryable: whether the same call may succeed later without a change.
        hint: what to do, for a person; may be empty.
    """

    def __init__(self, message: str, *, retryable: bool = False, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.retryable = retryable
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword arguments when the error crosses a process boundary."""
        return _model_error, (self.message, self.retryable, self.hint)


def _model_error(message: str, retryable: bool, hint: str) -> ModelError:
    return ModelError(message, retryable=retryable, hint=hint)


class StoreError(GlongError):
    """The store cannot be read or written."""


class SchemaError(StoreError):
    """The store was made with another schema, encoder, dimension or format version."""


class ConflictError(StoreError):
    """Another writer committed first and a retry did not help."""


class NotFoundError(GlongError):
    """No such dialogue, session, turn or edge for this tenant."""


class StoreNotFoundError(StoreError, NotFoundError):
    """There is no store at the place that was named."""
