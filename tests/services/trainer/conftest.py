from types import SimpleNamespace

import pytest

from headrace.services.trainer import service
from headrace.services.trainer.backends import open_backend
from tests.services.trainer.bed import Counting


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    tokenizer = SimpleNamespace(
        save_pretrained=lambda folder: None,
        eos_token_id=-1,
        decode=lambda ids, skip_special_tokens: " ".join(map(str, ids)),
    )
    opened = SimpleNamespace(backend=made, tokenizer=tokenizer)
    monkeypatch.setattr(service, open_backend.__name__, lambda *_: opened)
    return made
