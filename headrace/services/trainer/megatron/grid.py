"""Where a rank stands among the tensor-, pipeline- and data-parallel ones.

Invariant: ranks count along tensors first, then data, then pipeline, so that rank 0 is the first of each; the
ranks of data index 0 hold the model once.
"""

from dataclasses import dataclass
from typing import Self, cast

from torch import distributed
from torch.distributed import ProcessGroup

from headrace.services.trainer.megatron.library import parallel_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The layout of the world and this rank's place in it."""

    tp: int
    pp: int
    dp: int
    tp_rank: int
    pp_rank: int
    dp_rank: int

    @classmethod
    def of(cls, *, tp: int, pp: int) -> Self:
        """Makes megatron's process groups, on every rank at once; torch.distributed is initialised.

        Raises ValueError where `tp` x `pp` does not divide the world, RuntimeError where this process has a
        Megatron model already.
        """
        world = distributed.get_world_size()
        if world % (tp * pp):
            raise ValueError(
                f"parallel: tp {tp} x pp {pp} does not divide {world} processes; "
                f"start a multiple of {tp * pp}"
            )
        if parallel_state.model_parallel_is_initialized():
            if _is_current():
                raise RuntimeError(
                    "this process trains a Megatron model already; give each trainer processes of its own"
                )
            parallel_state.destroy_model_parallel()
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=tp,
            pipeline_model_parallel_size=pp,
            create_gloo_process_groups=False,
        )
        return cls(
            tp=tp,
            pp=pp,
            dp=world // (tp * pp),
            tp_rank=parallel_state.get_tensor_model_parallel_rank(),
            pp_rank=parallel_state.get_pipeline_model_parallel_rank(),
            dp_rank=parallel_state.get_data_parallel_rank(),
        )

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0 of the world, which gets what is gathered."""
        return (self.tp_rank, self.pp_rank, self.dp_rank) == (0, 0, 0)

    @property
    def is_last_stage(self) -> bool:
        return self.pp_rank == self.pp - 1

    def rank(self, *, tp: int, dp: int, pp: int) -> int:
        """Of the whole world."""
        return tp + self.tp * (dp + self.dp * pp)

    @property
    def speaks(self) -> bool:
        """Whether this rank is among `speakers`."""
        return self.is_last_stage and self.tp_rank == 0

    def speakers(self) -> list[int]:
        """Of each data index the rank that tells what its last stage found."""
        return [self.rank(tp=0, dp=dp, pp=self.pp - 1) for dp in range(self.dp)]

    def tensor_group(self) -> ProcessGroup:
        return cast(ProcessGroup, parallel_state.get_tensor_model_parallel_group())

    def data_group(self) -> ProcessGroup:
        return cast(ProcessGroup, parallel_state.get_data_parallel_group())

    def embedding_group(self) -> ProcessGroup:
        """The first and the last stage, for ranks of those."""
        return cast(ProcessGroup, parallel_state.get_embedding_group())

    def close(self) -> None:
        """Gives megatron's process groups up."""
        parallel_state.destroy_model_parallel()


def _is_current() -> bool:
    """Whether megatron's groups are of the world that is there, and not of one that was left before."""
    try:
        distributed.get_process_group_ranks(
            cast(ProcessGroup, parallel_state.get_tensor_model_parallel_group())
        )
    except KeyError:
        return False
    return True
