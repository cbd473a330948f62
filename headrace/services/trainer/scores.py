"""The model that a trainer trains and what its losses ask of it, opened by what the algorithm fits.

a policy                        PackedModel    log-probabilities, entropy
a policy with a value head      ValueHead      and values, by weights that stay with the trainer
a value model                   PackedValues   values alone
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
from transformers import PreTrainedModel

from headrace.algorithms.base import Algorithm, PolicyOutput
from headrace.services.devices import CPU
from headrace.services.models import LoadedModel
from headrace.services.models.policy import load_policy, load_values
from headrace.services.options import PolicyOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.scoring.packing import Pack
from headrace.services.scoring.values import PackedValues
from headrace.services.trainer.recomputed import keep_inputs_only
from headrace.services.trainer.value_head import ValueHead

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Scores(Protocol):
    @property
    def model(self) -> PreTrainedModel:
        """What is published and saved."""
        ...

    @property
    def own(self) -> Mapping[str, torch.nn.Parameter]:
        """Parameters that are trained beside the model's and stay with the trainer, by name."""
        ...

    def logprobs(self, pack: Pack) -> torch.Tensor:
        """[T], of each answer token; NaN of a value model, which has none."""
        ...

    def outputs(self, pack: Pack, names: Sequence[str]) -> PolicyOutput:
        """Of each answer token, with what `names` names of `algorithms.base.OUTPUTS`.

        Raises ValueError for a name that the model does not tell.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    scores: Scores = field(repr=False)
    tokenizer: "PreTrainedTokenizerBase" = field(repr=False)


def open_scores(
    policy: PolicyOptions,
    algorithm: Algorithm,
    *,
    temperature: float,
    seed: int,
    device: torch.device = CPU,
) -> Opened:
    """The initial weights of `policy`, as `algorithm` trains them; `temperature` is that of the rollouts.

    Raises ValueError where the algorithm fits a value model and this is none, or the other way round.
    """
    if algorithm.trains_values:
        loaded: LoadedModel = load_values(policy, seed=seed, device=device)
        scores: Scores = PackedValues(loaded.model)
    else:
        loaded = load_policy(policy, seed=seed, device=device)
        packed = PackedModel(loaded.model, temperature=temperature)
        scores = ValueHead(packed) if "values" in algorithm.outputs() else packed
    if policy.gradient_checkpointing:
        keep_inputs_only(scores.model)
    return Opened(scores=scores, tokenizer=loaded.tokenizer)
