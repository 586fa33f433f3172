"""Who and when a query names: the cheap rule for a whole memory is the fine one, cut at a half."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glong.retrieval import MemoryIndex
from glong.retrieval.asked import Asked
from tests.glong.retrieval.random_memories import memories

DAY_S = 86_400.0


@given(
    graph=memories(),
    spans=st.lists(st.tuples(st.floats(-60, 60), st.floats(0, 30)), max_size=2),
)
def test_a_turn_is_of_the_time_asked_for_where_its_claim_is_a_half(graph, spans) -> None:
    times = graph.turn_times_s
    now_s = float(np.nanmax(times)) if np.isfinite(times).any() else 0.0
    asked = Asked([], [], [(now_s + a * DAY_S, now_s + (a + n) * DAY_S) for a, n in spans])
    index = MemoryIndex.of(graph)
    claims = asked.dates(index, np.arange(graph.n_turns))
    clear = abs(claims - 0.5) > 1e-5
    assert (asked.said_then(index) == (claims >= 0.5))[clear].all()
