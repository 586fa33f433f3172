"""Which replica gets a question: requests for one memory meet where it is held."""

from glong.ids import dialogue_key

__all__ = ["N_BUCKETS", "bucket_of"]

_HEX_DIGITS = 3
N_BUCKETS = 16**_HEX_DIGITS


def bucket_of(tenant: str, dialogue_id: str) -> str:
    """The id that Ray Serve routes requests for a memory by, one of ``N_BUCKETS``.

    Ray reports each such id as a metric that never goes away: ids of memories themselves would pile
    up there, and who reads the metrics could test guesses.
    """
    return dialogue_key(tenant, dialogue_id)[:_HEX_DIGITS]
