"""A replica computes on the GPUs that it reserves, or says that it cannot."""

import numpy as np
import pytest
import torch

from headrace.services.devices import CPU, moved, place, take
from headrace.services.errors import ServiceError
from headrace.services.models.policy import load_policy
from headrace.services.options import LoraOptions, PolicyOptions


@pytest.mark.parametrize(
    ("gpus", "rank", "device"),
    [(0, 0, "cpu"), (0, 3, "cpu"), (0.25, 0, "cuda:0"), (1, 0, "cuda:0"), (4, 3, "cuda:3")],
)
def test_a_rank_has_a_gpu_of_its_own_where_the_replica_reserves_some(
    gpus: float, rank: int, device: str
) -> None:
    assert place(gpus, rank=rank, cards=lambda: 4) == torch.device(device)


def test_a_gpu_that_is_not_there_is_never_replaced_by_the_cpu() -> None:
    with pytest.raises(ServiceError, match=r"rank 1 of a replica with gpus: 2 has no GPU: torch \S+ sees 1"):
        place(2, rank=1, cards=lambda: 1)


def test_a_replica_that_reserves_none_is_on_the_cpu_whatever_there_is() -> None:
    assert take(0) == CPU


def test_numbers_stay_where_they_are_on_the_cpu_and_change_their_type_where_asked() -> None:
    array = np.array([1.0, 2.0])
    view = moved(array, CPU)
    array[0] = 5.0
    assert view.tolist() == [5.0, 2.0]
    assert moved(array, CPU, torch.float32).dtype == torch.float32
    assert moved(array, torch.device("meta")).shape == (2,)


def test_a_policy_is_moved_whole_with_its_adapters() -> None:
    policy = PolicyOptions(model="tiny-copier", lora=LoraOptions(rank=2))
    model = load_policy(policy, seed=0, device=torch.device("meta")).model
    assert {each.device.type for each in (*model.parameters(), *model.buffers())} == {"meta"}
