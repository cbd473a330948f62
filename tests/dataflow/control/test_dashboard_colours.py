"""Texts of the dashboard can be read, by the contrast that WCAG's level AA asks for, in light and in dark."""

import re

import pytest

from headrace.dataflow.control.routes.dashboard import PAGE

CSS = (PAGE / "dashboard.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)
TEXTS = [
    *((text, on) for text in ("ink", "soft", "bad") for on in ("page", "card", "band")),
    *(("k0", on) for on in ("page", "card")),
    ("page", "focus"),
]
SHAPES = [
    *((shape, on) for shape in ("good", "waiting", "bad", "flow", "weights") for on in ("card", "band")),
    *((f"k{n}", "card") for n in range(6)),
    ("focus", "card"),
]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("one", "other", "least"), [*((*pair, 4.5) for pair in TEXTS), *((*pair, 3.0) for pair in SHAPES)]
)
def test_it_can_be_read(scheme: dict[str, str], one: str, other: str, least: float) -> None:
    assert contrast(scheme[one], scheme[other]) >= least
