from serve.routing import N_BUCKETS, bucket_of

DAY_S = 86_400.0
NOW_S = 1.8e9


def test_a_memory_has_one_bucket_for_a_day_and_then_another() -> None:
    hours = range(1, 25)
    first = bucket_of("acme", "d", NOW_S)
    changed = [hour for hour in hours if bucket_of("acme", "d", NOW_S + hour * 3_600.0) != first]
    assert changed == list(range(changed[0], 25))
    assert bucket_of("other", "d", NOW_S) != first


def test_buckets_are_few_and_change_at_different_times() -> None:
    names = [f"dialogue {n}" for n in range(5_000)]
    now, later = ([bucket_of("acme", name, NOW_S + s) for name in names] for s in (0.0, DAY_S / 8))
    assert len(set(now)) == N_BUCKETS
    changed = sum(one != other for one, other in zip(now, later, strict=True)) / len(names)
    assert 0.1 < changed < 0.15
    assert not set(now) & {bucket_of("acme", name, NOW_S + DAY_S) for name in names}
