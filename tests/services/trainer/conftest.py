from types import SimpleNamespace

import pytest

from headrace.services.trainer import service
from headrace.services.trainer.scores import open_scores
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.trainer.bed import Counting


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    tokenizer = SimpleNamespace(save_pretrained=lambda folder: None)
    opened = SimpleNamespace(scores=None, tokenizer=tokenizer)
    monkeypatch.setattr(service, open_scores.__name__, lambda *_, **__: opened)
    monkeypatch.setattr(service, TorchBackend.__name__, lambda *_, **__: made)
    return made
