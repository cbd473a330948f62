"""A router sends each question to one of two specialists: one for short answers, one that costs more."""

from headrace.services.branch import Parent, Prompt

SHORT, LONG = set("abcde"), set("fghij")
"""What the router says, by the first letter."""
PRICE = 0.3
"""Of an answer by the specialist for long ones."""


def to_short(row: Parent) -> Prompt | None:
    return _sent(row) if row.response.text[:1] in SHORT else None


def to_long(row: Parent) -> Prompt | None:
    return _sent(row) if row.response.text[:1] in LONG else None


def routed(response: str, example: dict, *, short: float | None, long: float | None) -> dict:
    """The success of whoever was asked, less its price; nothing where nobody was."""
    success, price = (short, 0.0) if short is not None else (long, PRICE)
    is_long = len(example["answer"]) > 1
    return {
        "reward": 0.0 if success is None else max(0.0, success - price),
        "exact": float(response[:1] in (LONG if is_long else SHORT)),
    }


def _sent(row: Parent) -> Prompt:
    return Prompt(prompt=[row.prompt], example=row.example)
