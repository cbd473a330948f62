"""From a source's options to the stream that it draws from."""

from dataclasses import replace

from headrace.algorithms.budgets.registry import build_allocator
from headrace.algorithms.curricula.base import DataSampler
from headrace.algorithms.curricula.options import UniformOptions
from headrace.algorithms.curricula.registry import build_sampler
from headrace.algorithms.prompt_data import PromptData
from headrace.services.base import Context
from headrace.services.data_position import DataPosition
from headrace.services.options import SourceOptions
from headrace.services.source.adaptive import AdaptiveStream, Share
from headrace.services.source.datasets import Dataset
from headrace.services.source.domains import DomainFigures
from headrace.services.source.journal import Journal
from headrace.services.source.order import DataOrder, Ordered
from headrace.services.source.stream import MAX_PROMPTS_PER_PUT, OrderedStream, PromptStream


def open_stream(context: Context, dataset: Dataset, used: DataPosition) -> PromptStream:
    """The stream of a run that has used the prompts of `used`.

    Raises ValueError where the data set lacks what the sampler or the budget goes by, JournalError.
    """
    options: SourceOptions = context.options
    order = DataOrder(size=len(dataset), seed=context.seed, shuffle=options.shuffle, epochs=options.epochs)
    if options.is_fixed_order():
        per_put = min(context.flow.prompts_per_step, MAX_PROMPTS_PER_PUT)
        return OrderedStream(order, used=used, samples=options.samples_per_prompt, per_put=per_put)
    labels = dataset.labels()
    data = PromptData(
        size=len(dataset),
        seed=context.seed,
        domains=labels.domains,
        pass_rates=labels.pass_rates,
        prompts_per_step=context.flow.prompts_per_step,
        steps=context.flow.steps,
    )
    return AdaptiveStream(
        _sampler(options, order, data),
        build_allocator(options.budget, data),
        Journal(context.run_dir / "sources" / context.node),
        share=Share(
            prompts=context.flow.prompts_per_step,
            samples_per_prompt=options.samples_per_prompt,
            most=options.budget.group_sizes(options.samples_per_prompt)[1],
            size=len(dataset),
        ),
        figures=DomainFigures(labels),
        order=replace(order, epochs=None),
        used=used,
    )


def _sampler(options: SourceOptions, order: DataOrder, data: PromptData) -> DataSampler:
    """Uniform as the source has it, by `shuffle` and `epochs`; else the one that is named."""
    return (
        Ordered(order)
        if isinstance(options.sampler, UniformOptions)
        else build_sampler(options.sampler, data)
    )
