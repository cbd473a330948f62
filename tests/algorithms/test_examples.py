import doctest
from types import ModuleType

import pytest

from headrace.algorithms import parameter_noise
from headrace.algorithms.filters import attempts
from headrace.algorithms.updates import annealed, greedy_rate


@pytest.mark.parametrize("module", [annealed, attempts, greedy_rate, parameter_noise])
def test_the_examples_in_docstrings_give_what_they_say(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
