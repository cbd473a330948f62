"""How wide a text is at most, without a font at hand: what is said to fit does so in any common sans serif.

Widths are those of wide faces (DejaVu Sans, Verdana); narrower ones leave room.
"""

_NARROW, _WIDE = 0.40, 0.98
_WIDTHS = {
    **dict.fromkeys("ijl.,:;'|!I", _NARROW),
    **dict.fromkeys('frt()[]{}/\\- "', 0.46),
    **dict.fromkeys("mwMW%@", _WIDE),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&_=+<>~#ƒ", 0.80),
}
_COMMON = 0.64
_BOLD = 1.12


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """At most what the text takes at that size, in its units; beyond ASCII a character may be a square."""
    ems = sum(_WIDTHS.get(c, _COMMON if c.isascii() else 1.0) for c in text)
    return ems * size * (_BOLD if bold else 1.0)


def wrapped(text: str, size: float, width: float) -> tuple[str, ...]:
    """Lines of whole words, none wider than `width` but for a word that is."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    return tuple(lines)


def widest_word(text: str, size: float) -> float:
    return max((text_width(word, size) for word in text.split()), default=0.0)
