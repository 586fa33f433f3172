"""The memory store: Lance tables under one folder or object-store URI, written exactly once.

``layout`` where it lies, ``waves`` writing, ``reading`` and ``assembly`` reading, ``upkeep`` and
``compaction`` keeping it fast and small, ``forgotten``, ``leaving_out``, ``forgetting``,
``sweeping`` and ``deleting`` taking things out and keeping them out, ``purge`` and ``lease``
removing them from the disk, ``facts`` stated by hand, ``regroup``, ``origins`` and ``transfer``
moving sessions, ``status``, ``checks`` and ``export`` looking at it, ``store`` all of it as one
object.
"""

from glong.store.checks import Violation
from glong.store.compaction import Compaction
from glong.store.forgetting import Target
from glong.store.forgotten import Forgotten
from glong.store.layout import StoreMeta
from glong.store.leaving_out import BY_HAND, by_hand_id, is_by_hand, leave_out
from glong.store.purge import Purge
from glong.store.status import Status
from glong.store.store import Store
from glong.store.waves import FragmentBatch, Wave

__all__ = [
    "BY_HAND",
    "Compaction",
    "Forgotten",
    "FragmentBatch",
    "Purge",
    "Status",
    "Store",
    "StoreMeta",
    "Target",
    "Violation",
    "Wave",
    "by_hand_id",
    "is_by_hand",
    "leave_out",
]
