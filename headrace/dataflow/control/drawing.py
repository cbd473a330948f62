"""The picture of a graph as the dashboard draws it: places by `headrace draw`'s own layout."""

from headrace.dataflow.control.views import Band, Card, Flow, Picture, Rect, Supply
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.drawing import shapes
from headrace.dataflow.planning.drawing.layout import layout
from headrace.dataflow.planning.drawing.picture import picture
from headrace.dataflow.planning.topology import leased_table
from headrace.services.kinds import kind_of

BETWEEN_ROWS, SIDE = 70.0, 44.0
"""Room for what is live of an edge, left of where it ends."""


def drawn(spec: GraphSpec) -> Picture:
    """Of a graph whose structure has no fault."""
    made = layout(picture(spec), between_rows=BETWEEN_ROWS, side=SIDE)
    return Picture(
        name=spec.name,
        width=made.width,
        height=made.height,
        bands=[Band(table=b.name, lines=list(b.lines), rect=_rect(b.rect)) for b in made.bands],
        cards=[_card(card, leased_table(spec, card.box.name)) for card in made.cards],
        flows=[
            Flow(
                source=curve.flow.source,
                target=curve.flow.target,
                columns=list(curve.flow.columns),
                points=list(curve.points),
            )
            for curve in made.curves
        ],
        supplies=[
            Supply(
                trainer=line.supply.trainer,
                policy=line.supply.policy,
                reader=line.supply.reader,
                points=list(line.points),
            )
            for line in made.lines
        ],
    )


def _card(card: shapes.Card, table: str | None) -> Card:
    return Card(
        name=card.box.name,
        kind=card.box.kind,
        lines=list(card.lines),
        fused=list(card.box.fused),
        table=table or "",
        why_single=kind_of(card.box.kind).is_single,
        rect=_rect(card.rect),
    )


def _rect(rect: shapes.Rect) -> Rect:
    return Rect(x=rect.x, y=rect.y, width=rect.width, height=rect.height)
