"""The reference of keys is what the code gives."""

import re
from pathlib import Path

import pytest

from headrace.dataflow.cli import main
from headrace.dataflow.language.spec import OPTIONS

REFERENCE = Path(__file__).parent.parent / "docs" / "reference.md"


def test_the_reference_is_what_the_code_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--markdown"]) == 0
    assert capsys.readouterr().out == REFERENCE.read_text(), (
        "write it anew: headrace keys --markdown > docs/reference.md"
    )


def test_every_kind_of_node_has_a_section_and_every_link_leads_to_one() -> None:
    text = REFERENCE.read_text()
    titles = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert set(OPTIONS) <= set(titles)
    anchors = {title.replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    assert len(set(titles)) == len(titles)
