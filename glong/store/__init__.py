"""The memory store: Lance tables under one folder or object-store URI, written exactly once.

``layout`` where it lies, ``waves`` writing, ``reading`` and ``assembly`` reading, ``upkeep`` and
``compaction`` keeping it fast and small, ``status``, ``checks`` and ``export`` looking at it,
``store`` all of it as one object.
"""

from glong.store.checks import Violation
from glong.store.compaction import Compaction
from glong.store.layout import StoreMeta
from glong.store.status import Status
from glong.store.store import Store
from glong.store.waves import FragmentBatch, Wave

__all__ = [
    "Compaction",
    "FragmentBatch",
    "Status",
    "Store",
    "StoreMeta",
    "Violation",
    "Wave",
]
