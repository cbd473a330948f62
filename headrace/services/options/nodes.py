"""The nodes that work on a policy's rows: where they come from, who answers, scores and trains."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.bounds import Count, Natural, NonNegative, Positive, Share
from headrace.algorithms.budgets.options import BudgetOptions, FixedOptions
from headrace.algorithms.curricula.options import SamplerOptions, UniformOptions
from headrace.algorithms.filters import FilterOptions
from headrace.algorithms.options import AlgorithmOptions
from headrace.algorithms.updates import Accumulate, UpdateOptions
from headrace.services.options.data import Dataset
from headrace.services.options.openai import OpenaiOptions
from headrace.services.options.placed import STALLED_LEAST_S, Placed
from headrace.services.options.verifiers import Verifier
from headrace.services.options.vllm import VllmOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(Placed):
    """Writes prompts, one row per sample to come."""

    dataset: Dataset
    """What the prompts are drawn from."""
    samples_per_prompt: Count = 8
    """G: answers asked for each prompt; the group over which advantages are normalised. With a budget, their
    mean: a step has prompts_per_step times as many to share out."""
    sampler: SamplerOptions = field(default_factory=UniformOptions)
    """Which prompt comes next."""
    budget: BudgetOptions = field(default_factory=FixedOptions)
    """How many samples each prompt of a step gets."""
    epochs: Count | None = None
    """Passes over the data; None: as many as the steps need."""
    shuffle: bool = True
    """Draw each epoch in its own order, from the run's seed."""
    ahead_steps: NonNegative | None = None
    """Prompts kept waiting beyond what the staleness admits, in steps; None: 2, or 1 where the sampler or the
    budget hears of answers. What it hears shows in a step that many, the staleness and two more later."""

    @property
    def hears(self) -> bool:
        """Whether answers change what is drawn."""
        return self.sampler.hears or self.budget.hears

    @property
    def waiting_steps(self) -> float:
        """`ahead_steps`, resolved."""
        if self.ahead_steps is None:
            return 1.0 if self.hears else 2.0
        return self.ahead_steps

    def is_fixed_order(self) -> bool:
        """Whether what is drawn follows from the position alone."""
        return isinstance(self.sampler, UniformOptions) and isinstance(self.budget, FixedOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions(Placed):
    """Generates answers with a policy's newest weights."""

    engine: Literal["torch", "vllm", "openai", "fake"] = "torch"
    """What generates: a Hugging Face model in this process, vLLM in it, a server, or a scripted stand-in."""
    max_new_tokens: Count = 16
    """Longest answer, in tokens."""
    temperature: Positive = 1.0
    """Sampling temperature; log-probabilities are those of the tempered distribution."""
    max_concurrent: Count = 256
    """Sequences decoded at once by a replica."""
    over_new_weights: Literal["finish", "swap", "abort_keep", "abort_restart"] = "swap"
    """What samples in flight do when new weights arrive: finish on the old ones; go on with the new; go on
    with the new and what is cached of them made anew; begin anew."""
    vllm: VllmOptions = field(default_factory=VllmOptions)
    """Settings of the engine vllm."""
    openai: OpenaiOptions | None = None
    """The server of the engine openai, for a policy that nobody trains."""
    fake: dict[str, Any] = field(default_factory=dict)
    """Script of the fake engine; see `services/rollout/engines/fake.py`."""

    def longest_work_s(self, no_progress_timeout_s: float) -> float:
        """A server may take its own time."""
        own_s = 0.0 if self.openai is None else self.openai.longest_answer_s
        return max(Placed.longest_work_s(self, no_progress_timeout_s), own_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardOptions(Placed):
    """Scores answers: a value, invalid with a reason, or an error to retry."""

    verifier: Verifier
    """What scores an answer."""
    column: str = "reward"
    """Column of the value; why there is none and named parts stand beside it, in `<column>_invalid` and
    `<column>_parts`."""
    max_error_rate: Share = 0.5
    """Share of scorings that may raise over the last 256 before the service gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerOptions(Placed):
    """A model that scores answers."""

    micro_batch_tokens: Count = 8192
    """Tokens per forward pass, prompts counted once per group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions(ScorerOptions):
    """Log-probabilities of the answers under the policy's initial weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherOptions(ScorerOptions):
    """Log-probabilities of the answers under another policy of the same tokens: under its newest weights
    where a trainer trains it, else under its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticOptions(ScorerOptions):
    """Values of the answers' tokens under a policy that is a value model: under its newest weights where a
    trainer trains it, else under its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelOptions:
    """Processes of one trainer, all on its node: tp x pp x dp of them."""

    dp: Count = 1
    """Ranks that share out the groups of a batch, or as many sets of tp x pp ranks that do; with megatron,
    what the optimizer keeps as well."""
    fsdp: bool = False
    """With torch, lay weights, gradients and moments in shards over the ranks; else each has all of them."""
    tp: Count = 1
    """With megatron, ranks that share out each layer."""
    pp: Count = 1
    """With megatron, ranks that share out the sequence of layers."""

    @property
    def processes(self) -> int:
        return self.dp * self.tp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerOptions(Placed):
    """Turns batches of whole groups into new versions of its policy."""

    algorithm: AlgorithmOptions
    """How a group's rewards become a loss."""
    backend: Literal["torch", "megatron"] = "torch"
    """What trains: the Hugging Face model, or megatron-core's form of it."""
    parallel: ParallelOptions = field(default_factory=ParallelOptions)
    """Processes that train together; every rank gets the node's threads."""
    prompts_per_step: Count = 32
    """Groups in one training step."""
    steps: Count | None = None
    """Training steps of this policy; None: those of the run."""
    update: UpdateOptions = field(default_factory=Accumulate)
    """How a batch becomes optimizer steps; every batch makes one version."""
    filter: FilterOptions | None = None
    """Which groups are dropped and which answers are masked; None: all are trained on."""
    max_attempts: Count = 10
    """With a filter, batches of groups that a step may look at to fill itself; 10 is DAPO's."""
    when_used_up: Literal["stop", "train_smaller"] = "stop"
    """What follows when a step's attempts are used up: the run fails with the counts by reason, or what was
    accepted is trained on, if that is anything at all."""
    micro_batch_tokens: Count = 8192
    """Tokens per forward and backward pass, prompts counted once per group; no update depends on it."""
    checkpoint_every: Natural = 50
    """Steps between checkpoints; the last step always makes one. 0: only the last."""
    checkpoint_async: bool = True
    """Copy in the host's memory what a checkpoint holds and write it beside the next steps; false: steps wait
    until it is on disk, and the copy's memory is saved."""
    keep_checkpoints: Count = 2
    """Newest checkpoints kept."""
    keep_every: Natural = 0
    """Checkpoints of steps that it divides are kept for ever; 0: none."""
    checkpoint_store: str | None = None
    """Where a copy of each goes too, beside the steps and kept by the same rules: an address that fsspec
    knows, of this policy alone, as s3://bucket/run, gs://bucket/run or file:///volume/run. A run goes on from
    the newest that is there or here. None: nowhere."""
    show_samples: Natural = 4
    """Samples of each step that the dashboard shows, evenly spread over its rows; 0: none."""

    def longest_work_s(self, no_progress_timeout_s: float) -> float:
        """A step."""
        return max(no_progress_timeout_s, STALLED_LEAST_S)
