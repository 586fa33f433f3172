"""Which replica gets a question: requests for one memory meet where it is held."""

from glong.ids import dialogue_key

__all__ = ["N_BUCKETS", "bucket_of"]

_HEX_DIGITS = 2
N_BUCKETS = 16**_HEX_DIGITS
_PERIOD_S = 86_400.0


def bucket_of(tenant: str, dialogue_id: str, now_s: float) -> str:
    """The id that Ray Serve routes requests for a memory by; at most ``N_BUCKETS`` at a time.

    Ray reports each such id as a metric that never goes away: ids of memories themselves would pile
    up there, and who reads the metrics could test guesses. Each bucket gets another id once a day,
    each at another time: Ray then places it anew, so that replicas that were added get their share,
    and a bucket that overflowed to a second replica is in one again.
    """
    bucket = dialogue_key(tenant, dialogue_id)[:_HEX_DIGITS]
    day = int(now_s / _PERIOD_S + int(bucket, 16) / N_BUCKETS)
    return f"{bucket}-{day}"
