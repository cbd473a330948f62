"""A proposer makes words for a solver to copy; rewarded are those that the solver gets half the time."""

from headrace.services.branch import Parent, Prompt

LETTERS = set("abcdefghij")


def proposed(row: Parent) -> Prompt | None:
    """The proposed word is the solver's prompt; what is no whole word is not passed on."""
    word = row.response.text
    if row.columns["finish_reason"] != "stop" or not word or not set(word) <= LETTERS:
        return None
    return Prompt(prompt=[row.response, ">"], example={"answer": word})


def proposal(response: str, example: dict, *, success: float | None) -> dict:
    """Highest where the solver gets the word in half of its tries; a word that it never or always gets is
    worth a little, and what is no word nothing."""
    if success is None:
        return {"reward": 0.0, "valid": 0.0}
    return {
        "reward": 0.1 + 0.9 * (1.0 - abs(2.0 * success - 1.0)),
        "valid": 1.0,
        "letters": float(len(response)),
    }
