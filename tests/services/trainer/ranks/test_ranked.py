"""Two ranks on gloo against one process: losses, weights, checkpoints; and what happens when one is lost."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from headrace.algorithms.options import AlgorithmOptions, M2poOptions, PpoOptions
from headrace.services.errors import RanksFailed
from headrace.services.models import tiny_copier
from headrace.services.options import LoraOptions, ParallelOptions, PolicyOptions
from headrace.services.trainer.backend import NonFiniteGradientError, NotSaved
from headrace.services.trainer.ranks.backend import RankedBackend
from headrace.services.trainer.ranks.wire import pack
from headrace.services.trainer.tensor_files import state_files
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.trainer.ranks.ranked import (
    GRPO,
    POLICY,
    alone,
    built,
    copied,
    halves,
    ranked,
    samples,
    setup,
)

DP, FSDP = ParallelOptions(dp=2), ParallelOptions(dp=2, fsdp=True)
pytestmark = pytest.mark.slow


def assert_close(got: Mapping[str, torch.Tensor], want: Mapping[str, torch.Tensor], tolerance: float) -> None:
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=tolerance, msg=name)


def trained(
    backend: RankedBackend | TorchBackend, steps: range, algorithm: AlgorithmOptions = GRPO
) -> list[float]:
    """Batches in two halves; losses and gradient norms."""
    made, figures = built(algorithm), []
    for step in steps:
        for part in halves(samples()):
            backend.accumulate(part, made)
        result = backend.step(step)
        figures += [result.loss, result.grad_norm, *(value for _, value in sorted(result.sums.items()))]
    return figures


@pytest.mark.parametrize("parallel", [DP, FSDP], ids=["dp", "fsdp"])
def test_two_ranks_take_the_steps_of_one_and_go_on_from_its_checkpoints(
    tmp_path: Path, parallel: ParallelOptions
) -> None:
    one, batch = alone(), samples()
    with ranked(setup(tmp_path / "first", parallel)) as two:
        want = one.before(batch.prompt_ids, batch.response_ids, batch.groups)["logprobs"]
        got = two.before(batch.prompt_ids, batch.response_ids, batch.groups)["logprobs"]
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
        np.testing.assert_allclose(trained(two, range(2)), trained(one, range(2)), rtol=0, atol=1e-11)
        assert_close(two.weights(), one.weights(), 1e-11)
        (saved := tmp_path / "saved").mkdir()
        two.save(saved)
        assert_close(state_files(saved), one.state(), 1e-11)
        weights = load_file(saved / "model.safetensors")
        assert_close(weights, two.weights(), 0)
        (beside := tmp_path / "beside").mkdir()
        two.snapshot()
        two.write(beside)
        trained(two, range(2, 3))
        two.written()
        assert {path.name: path.read_bytes() for path in beside.iterdir()} == {
            path.name: path.read_bytes() for path in saved.iterdir()
        }
        went_on = copied(two.weights())
        two.load(saved)
        assert_close(two.weights(), weights, 0)
        trained(two, range(2, 3))
        assert_close(two.weights(), went_on, 0)
        back = alone()
        back.load(saved)
        assert_close(back.weights(), weights, 0)
        assert_close(back.state(), state_files(saved), 0)
        trained(back, range(2, 3))
        assert_close(back.weights(), went_on, 1e-11)
        (wider := tmp_path / "wider").mkdir()
        back.save(wider)
        two.load(wider)
        assert_close(two.weights(), back.weights(), 0)
    assert not list(tmp_path.glob("*/rendezvous*"))


def test_decisions_over_the_batch_adapters_and_layers_computed_again_are_as_in_one(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    policy = replace(POLICY, lora=LoraOptions(rank=4), gradient_checkpointing=True)
    algorithm = M2poOptions(threshold=0.5)
    one = alone(policy, algorithm)
    with ranked(setup(tmp_path, FSDP, policy=policy, algorithm=algorithm)) as two:
        for step, batch in enumerate((samples(), samples(1))):
            for backend in (one, two):
                backend.accumulate(batch, built(algorithm))
            assert two.step(step).loss == pytest.approx(one.step(step).loss, abs=1e-12)
        assert_close(two.weights(), one.weights(), 1e-12)


def test_what_every_rank_refuses_is_raised_as_it_is(tmp_path: Path) -> None:
    broken = replace(samples(), advantages=np.full(15, np.inf))
    with ranked(setup(tmp_path, DP)) as two:
        two.accumulate(broken, built())
        with pytest.raises(NonFiniteGradientError, match="step 4: the gradient norm is"):
            two.step(4)
        assert_close(two.weights(), alone().weights(), 0)
        trained(two, range(1))
        (state := tmp_path / "trainer.safetensors").mkdir()
        with pytest.raises(NotSaved, match="a checkpoint could not be written; rank 0: "):
            two.save(tmp_path)
        two.snapshot()
        two.write(tmp_path)
        with pytest.raises(NotSaved, match="a checkpoint could not be written; rank 0: "):
            two.written()
        state.rmdir()
        two.write(tmp_path)
        two.written()
        save_file({"w": torch.zeros(1)}, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match="weights do not fit the model"):
            two.load(tmp_path)


@pytest.mark.nightly
def test_a_value_head_is_trained_beside_a_model_in_shards(tmp_path: Path) -> None:
    algorithm, batch = PpoOptions(critic="head", advantage="gae"), samples()
    zeros = [np.zeros(len(ids)) for ids in batch.response_ids]
    given = replace(batch, columns={"values": zeros, "returns": [values + 1.0 for values in zeros]})
    one = alone(algorithm=algorithm)
    with ranked(setup(tmp_path, FSDP, algorithm=algorithm)) as two:
        for backend in (one, two):
            backend.accumulate(given, built(algorithm))
        assert two.step(0).grad_norm == pytest.approx(one.step(0).grad_norm, abs=1e-12)
        assert_close(two.weights(), one.weights(), 1e-11)
        two.save(tmp_path)
        assert_close(state_files(tmp_path), one.state(), 1e-11)


def test_an_idle_rank_adds_up_the_output_layer_that_its_value_head_does_not_read(tmp_path: Path) -> None:
    policy = replace(POLICY, model=str(untied(tmp_path / "model")))
    algorithm, batch = PpoOptions(critic="head", advantage="gae"), samples(1)
    zeros = [np.zeros(len(ids)) for ids in batch.response_ids]
    given = replace(batch, columns={"values": zeros, "returns": [values + 1.0 for values in zeros]})
    one = alone(policy, algorithm)
    with ranked(setup(tmp_path, FSDP, policy=policy, algorithm=algorithm)) as two:
        for backend in (one, two):
            backend.accumulate(given, built(algorithm))
        assert two.step(0).grad_norm == pytest.approx(one.step(0).grad_norm, abs=1e-12)
        assert_close(two.weights(), one.weights(), 1e-11)


def test_a_rank_that_is_killed_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with ranked(setup(tmp_path, DP)) as two:
        (rank_1,) = two.processes
        os.kill(rank_1, signal.SIGKILL)
        with pytest.raises(RanksFailed, match=rf"rank 1 \(process {rank_1}\) was ended by signal 9"):
            two.accumulate(samples(), built())
        assert not psutil.pid_exists(rank_1)
        with pytest.raises(RanksFailed, match="take no call: accumulate: rank 1"):
            two.step(0)


def test_a_rank_that_hangs_is_named_once_its_time_is_over(tmp_path: Path) -> None:
    with ranked(setup(tmp_path, DP)) as two:
        (rank_1,) = two.processes
        two._timeout_s = 1.0
        os.kill(rank_1, signal.SIGSTOP)
        with pytest.raises(RanksFailed, match=rf"rank 1 \(process {rank_1}\) did not answer in time"):
            two.discard()
        assert not psutil.pid_exists(rank_1)


@pytest.mark.nightly
def test_an_error_of_one_rank_alone_is_told_with_its_text(tmp_path: Path) -> None:
    asked = pack({"call": "no_such_call", "arguments": []})
    with (
        ranked(setup(tmp_path, DP)) as two,
        pytest.raises(RanksFailed, match=r"rank 1 raised AttributeError: .*'no_such_call'"),
    ):
        two._together("asking", asked, lambda: None, timeout_s=60.0)


def test_other_ranks_end_when_rank_0_is_killed(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from headrace.services.options import ParallelOptions
        from tests.services.trainer.ranks.ranked import ranked, setup
        with ranked(setup(Path(sys.argv[1]), ParallelOptions(dp=2))) as two:
            print(*two.processes, flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rank_0:
        try:
            assert rank_0.stdout is not None
            rank_1 = psutil.Process(int(rank_0.stdout.readline()))
            rank_1.suspend()
        finally:
            rank_0.kill()
    psutil.wait_procs([rank_1], timeout=60.0)
    assert not rank_1.is_running()


@pytest.mark.nightly
def test_a_policy_that_cannot_be_loaded_is_refused_as_in_one_process(tmp_path: Path) -> None:
    policy = PolicyOptions(model="tiny-value")
    with pytest.raises(ValueError, match="is a value model"), ranked(setup(tmp_path, DP, policy=policy)):
        raise AssertionError("a value model was trained as a language model")


def untied(folder: Path) -> Path:
    """A model whose output layer has weights of its own."""
    config = tiny_copier.config()
    config.tie_word_embeddings = False
    model = LlamaForCausalLM(config)
    tiny_copier.draw_weights(model, torch.Generator().manual_seed(0))
    model.save_pretrained(folder)
    tiny_copier.tokenizer().save_pretrained(folder)
    return folder
