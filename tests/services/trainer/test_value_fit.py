"""A value model in the back end: against a plain loop, against a value head, and through its checkpoint."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForTokenClassification,
    LlamaForTokenClassification,
    PreTrainedModel,
)

from headrace.algorithms.base import Algorithm, GroupScores
from headrace.algorithms.options import GrpoOptions, PpoOptions, ValueOptions
from headrace.algorithms.registry import build
from headrace.algorithms.updates import MiniBatches
from headrace.services.models.precision import full_precision
from headrace.services.options import OptimizerOptions, PolicyOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.scoring.values import PackedValues
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.scores import Scores, open_scores
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.services.trainer.update import optimizer_steps
from headrace.services.trainer.value_head import ValueHead
from tests.services.scoring.models import llama
from tests.services.trainer.batches import ragged_samples

VALUE = build(ValueOptions(), max_new_tokens=8)
HEAD = build(PpoOptions(value_coef=1.0, gae_whiten=False, gae_lambda=1.0), max_new_tokens=8)


def classifier() -> PreTrainedModel:
    """A value model of float64 with the body of `llama()`."""
    policy = llama()
    config = policy.config
    config.num_labels, config.classifier_dropout = 1, 0.1
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForTokenClassification(config).double().eval()
    full_precision(model)
    body = {name: tensor for name, tensor in policy.state_dict().items() if name != "lm_head.weight"}
    missing, unexpected = model.load_state_dict(body, strict=False)
    assert (sorted(missing), unexpected) == (["score.bias", "score.weight"], [])
    return model


def backend(scores: Scores, micro_batch_tokens: int = 40) -> TorchBackend:
    return TorchBackend(
        scores, OptimizerOptions(lr=1e-2), micro_batch_tokens=micro_batch_tokens, total_steps=None
    )


def written(samples: Samples, algorithm: Algorithm) -> Samples:
    """With the values that a critic wrote, without credit, and what the algorithm makes of them."""
    random = np.random.default_rng(2)
    values = [random.standard_normal(len(ids)) for ids in samples.response_ids]
    scores = GroupScores(
        groups=samples.groups,
        rewards=samples.rewards,
        lengths=np.array([len(ids) for ids in samples.response_ids]),
        columns={"loss_mask": samples.loss_mask, "values": values},
    )
    return replace(
        samples,
        advantages=np.zeros(len(samples)),
        columns={"values": values, **algorithm.targets(scores)},
        reference_logprobs=None,
    )


def flat(columns: object) -> torch.Tensor:
    assert isinstance(columns, list)
    return torch.from_numpy(np.concatenate(columns)).double()


def plain_step(model: PreTrainedModel, adamw: torch.optim.AdamW, samples: Samples) -> float:
    """The clipped loss written out, one unpadded pass for each sample; returns the gradient's norm."""
    values = []
    for prompt, response in zip(samples.prompt_ids, samples.response_ids, strict=True):
        ids = torch.tensor(np.concatenate((prompt, response)))[None]
        values.append(model(input_ids=ids).logits[0, len(prompt) - 1 : len(prompt) + len(response) - 1, 0])
    current, old, mask = torch.cat(values), flat(samples.columns["values"]), flat(samples.loss_mask)
    lengths = torch.tensor([len(ids) for ids in samples.response_ids])
    rewards = torch.repeat_interleave(torch.from_numpy(samples.rewards), lengths)
    moved = old + (current - old).clamp(-0.2, 0.2)
    losses = 0.5 * torch.maximum((current - rewards).square(), (moved - rewards).square())
    adamw.zero_grad()
    ((losses * mask).sum() / mask.sum()).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adamw.step()
    return norm.item()


@pytest.mark.parametrize("micro_batch_tokens", [1, 40, 8192])
def test_the_fit_equals_a_plain_loop_however_it_is_split(micro_batch_tokens: int) -> None:
    samples = written(ragged_samples(3, 3, masked=(2,), empty=(7,)), VALUE)
    plain, ours = classifier(), backend(PackedValues(classifier()), micro_batch_tokens)
    adamw = torch.optim.AdamW(plain.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(3):
        ours.accumulate(samples, VALUE)
        assert ours.step(step).grad_norm == pytest.approx(plain_step(plain, adamw, samples), rel=1e-9)
    expected = dict(plain.named_parameters())
    assert ours.weights().keys() == expected.keys()
    for name, tensor in ours.weights().items():
        torch.testing.assert_close(tensor, expected[name].detach(), rtol=0, atol=1e-9, msg=name)


def test_a_value_model_and_a_head_on_the_same_body_have_the_same_loss_and_gradient() -> None:
    """Without credit a head's trainer fits its values alone."""
    samples = ragged_samples(3, 3)
    model, head = classifier(), ValueHead(PackedModel(llama(), temperature=1.0))
    head.own["value_head/weight"].data.copy_(model.get_parameter("score.weight"))
    head.own["value_head/bias"].data.copy_(model.get_parameter("score.bias"))
    apart, shared = backend(PackedValues(model)), backend(head)
    apart.accumulate(written(samples, VALUE), VALUE)
    shared.accumulate(written(samples, HEAD), HEAD)
    alone, beside = apart.step(0), shared.step(0)
    for name in ("critic/vf_loss", "critic/returns", "critic/vf_clipfrac"):
        assert alone.sums[name] == pytest.approx(beside.sums[name], rel=1e-12)
    assert alone.grad_norm == pytest.approx(beside.grad_norm, rel=1e-12)
    assert alone.loss == pytest.approx(beside.loss, rel=1e-12)
    ours, theirs = apart.weights(), shared.weights()
    for name in theirs.keys() - {"lm_head.weight"}:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-12, msg=name)


def test_a_restored_fit_goes_on_bit_for_bit_from_a_checkpoint_that_transformers_opens(tmp_path: Path) -> None:
    samples = written(ragged_samples(2, 3), VALUE)
    first, second = backend(PackedValues(classifier())), backend(PackedValues(classifier()))
    first.accumulate(samples, VALUE)
    first.step(0)
    first.save(tmp_path)
    opened = AutoModelForTokenClassification.from_pretrained(tmp_path, dtype=torch.float64)
    assert opened.config.num_labels == 1
    second.load_state(
        dict(opened.state_dict()), {name: tensor.clone() for name, tensor in first.state().items()}
    )
    for ours in (first, second):
        ours.accumulate(samples, VALUE)
        ours.step(1)
    for one, other in ((first.weights(), second.weights()), (first.state(), second.state())):
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name


def test_several_steps_on_a_batch_go_by_the_values_that_were_written() -> None:
    samples = written(ragged_samples(4, 2), VALUE)
    ours = backend(PackedValues(classifier()))
    results = list(optimizer_steps(ours, MiniBatches(number=2, epochs=2), samples, VALUE, step=0, seed=0))
    assert [result.skipped for result in results] == [False] * 4
    firsts, seconds = results[:2], results[2:]
    for name in ("critic/values", "critic/returns"):
        before, after = (sum(each.sums[name] for each in part) for part in (firsts, seconds))
        assert after == pytest.approx(before, abs=1e-12)


def test_what_is_opened_follows_from_the_algorithm() -> None:
    def opened(model: str, algorithm: Algorithm) -> Scores:
        return open_scores(PolicyOptions(model=model), algorithm, temperature=1.0, seed=0).scores

    assert isinstance(opened("tiny-value", VALUE), PackedValues)
    assert isinstance(opened("tiny-copier", HEAD), ValueHead)
    assert isinstance(opened("tiny-copier", build(GrpoOptions(), max_new_tokens=8)), PackedModel)
    with pytest.raises(ValueError, match="'tiny-copier' is a language model, which predicts no values"):
        opened("tiny-copier", VALUE)
    with pytest.raises(ValueError, match="'tiny-value' is a value model, which makes and scores no tokens"):
        opened("tiny-value", HEAD)


def test_a_value_model_gives_values_alone() -> None:
    with pytest.raises(ValueError, match="asks for 'entropy', and a value model gives values alone"):
        backend(PackedValues(classifier())).accumulate(
            ragged_samples(1, 2), build(GrpoOptions(entropy_coef=0.1), max_new_tokens=8)
        )
