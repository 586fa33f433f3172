"""``glong ...``: the embedded mode on the command line of one machine.

Every command prints text for people and, with ``--json``, one JSON document for programs. Exit
status: 0 done, 1 something failed or is not healthy, 2 bad usage or configuration, 130 interrupted.

``parser`` the options; ``building``, ``asking``, ``drawing``, ``keeping``, ``machine`` and ``mcp``
what the commands do; ``opening`` what they work on; ``text`` what they print; ``exits`` how they
end. ``embedded`` is the memory behind the tools of ``mcp``.
"""

import sys
from collections.abc import Sequence

from glong.cli.exits import BAD_USAGE, FAILED, INTERRUPTED
from glong.cli.parser import Handler, parser
from glong.errors import ConfigError, GlongError, NotFoundError, SchemaError, SourceError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = parser().parse_args(argv)
    handler: Handler = args.handler
    try:
        return handler(args)
    except (ConfigError, SourceError, SchemaError, NotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_USAGE
    except GlongError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("Interrupted; what was committed stays.", file=sys.stderr)
        return INTERRUPTED
