"""``mcp``: the memories of a store as tools of a language model, over standard input and output."""

import argparse
import sys
from contextlib import redirect_stdout

from glong.cli.exits import DONE
from glong.cli.opening import open_memory

__all__ = ["mcp"]


def mcp(args: argparse.Namespace) -> int:
    """Serve the tools until the client closes the input."""
    from glong.cli.embedded import Embedded
    from glong.tools import tool_server

    with redirect_stdout(sys.stderr):  # standard output is the protocol's, also while models load
        memory = open_memory(args, create=True)
    with memory:
        tool_server(Embedded(memory)).run()
    return DONE
