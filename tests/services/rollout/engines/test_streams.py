import numpy as np

from headrace.services.rollout.engines.decoding.streams import stream_keys, uniforms


def test_a_number_depends_on_its_seed_and_place_alone() -> None:
    keys = stream_keys([5, 6, 7])
    together = uniforms(keys, np.array([2, 0, 9]))
    alone = [uniforms(stream_keys([seed]), np.array([place]))[0] for seed, place in ((5, 2), (6, 0), (7, 9))]
    assert together.tolist() == alone


def test_the_mixer_is_splitmix64() -> None:
    # The first output of SplitMix64 seeded with 0 is 0xE220A8397B1DCDAF; its key is mix(0) = 0.
    assert stream_keys([0]).tolist() == [0]
    assert uniforms(stream_keys([0]), np.array([0]))[0] == (0xE220A8397B1DCDAF >> 12) * 2.0**-52


def test_any_integer_is_a_seed() -> None:
    assert stream_keys([-1]).tolist() == stream_keys([(1 << 64) - 1]).tolist()
    assert stream_keys([1 << 80]).tolist() == stream_keys([0]).tolist()


def test_numbers_are_uniform_and_neighbouring_streams_unrelated() -> None:
    grid = np.stack([uniforms(np.repeat(stream_keys([s]), 500), np.arange(500)) for s in range(200)])
    assert grid.min() >= 0.0 and grid.max() < 1.0
    counts = np.histogram(grid, bins=10, range=(0.0, 1.0))[0]
    assert np.abs(counts - 10_000).max() < 400, "four standard deviations"
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 0.015
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.015
