"""A run whose trainer is two processes makes the steps of one whose trainer is one."""

from pathlib import Path

import pytest

from tests.end_to_end.copying import copying

SHORT = ("steps=3", "nodes.learn.prompts_per_step=4", "policies.actor.dtype=float64")


@pytest.mark.slow
def test_two_ranks_in_shards_make_the_steps_of_one_process(tmp_path: Path) -> None:
    one = copying(tmp_path / "one", *SHORT)
    two = copying(tmp_path / "two", *SHORT, "nodes.learn.parallel={dp: 2, fsdp: true}")
    for mine, theirs in zip(two.steps, one.steps, strict=True):
        assert mine["reward/mean"] == theirs["reward/mean"]
        for figure in ("actor/loss", "actor/grad_norm"):
            assert mine[figure] == pytest.approx(theirs[figure], abs=1e-10)
    assert (two.directory / "logs" / "learn-0-rank1.log").is_file()
