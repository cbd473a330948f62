from xml.etree import ElementTree

from headrace.dataflow import Graph
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.draw import draw_mermaid, draw_text
from headrace.dataflow.planning.drawing.picture import Flow, picture
from headrace.dataflow.planning.drawing.svg import draw_svg

SVG = "{http://www.w3.org/2000/svg}"


def graph() -> GraphSpec:
    built = Graph("pictured", staleness=1, steps=10)
    actor = built.policy("actor", model="tiny-copier")
    prompts = built.source("prompts", dataset="copy", samples_per_prompt=4)
    answers = built.rollout(prompts, policy=actor, replicas=2)
    scores = built.reward(answers, verifier="copy")
    bonus = built.transform(
        scores, name="bonus", function="a.b:bonus", columns=["reward"], writes={"bonus": "float64"}
    )
    kept = built.filter(bonus, name="kept", function="a.b:keep", columns=["bonus"])
    copied = built.branch([answers, scores], name="copied")
    built.trainer(actor, inputs=[answers, kept, scores], algorithm="grpo", prompts_per_step=8)
    critic = built.policy("critic", model="tiny-value")
    built.trainer(critic, inputs=[copied], algorithm="value", prompts_per_step=8, name="fit")
    return built.spec()


def test_a_picture_is_xml_with_a_box_for_every_service_and_scripts_of_none() -> None:
    root = ElementTree.fromstring(draw_svg(graph()))
    boxes = [group.get("data-node") for group in root.iter(f"{SVG}g") if group.get("data-node")]
    assert boxes == ["prompts", "answers", "scores", "kept", "copied", "learn", "fit"]
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        *("svg", "title", "style", "defs", "marker", "path", "rect", "text", "g")
    }
    (style,) = root.iter(f"{SVG}style")
    assert "prefers-color-scheme: dark" in str(style.text) and "url(" not in str(style.text)


def test_an_edge_tells_the_columns_that_it_carries() -> None:
    root = ElementTree.fromstring(draw_svg(graph()))
    told = [title.text for title in root.iter(f"{SVG}title")]
    assert told[0] == "pictured"
    assert "prompts → answers: prompt_ids" in told
    assert "kept → learn: kept_passed" in told
    assert "learn → answers: weights of actor" in told


def test_a_transform_stands_within_what_it_is_fused_into_and_gives_it_its_inputs() -> None:
    shown = picture(graph())
    assert [(box.name, box.fused) for box in shown.boxes if box.fused] == [("kept", ("bonus",))]
    assert Flow(source="scores", target="kept", columns=("reward",)) in shown.flows
    assert shown.lanes == {
        "prompts": "8 x 4 rows a step, trains actor",
        "copied": "8 x 4 rows a step, trains critic",
    }


def test_a_chart_has_a_subgraph_for_each_table() -> None:
    lines = draw_mermaid(graph()).splitlines()
    assert lines[1] == '    subgraph table_prompts["prompts: 8 x 4 rows a step, trains actor"]'
    assert '        copied["copied<br/>branch, rows as they are"]' in lines
    assert '        kept["kept<br/>filter by a.b:keep<br/>ƒ bonus"]' in lines
    assert "    scores --> kept" in lines


def test_a_tree_fits_a_terminal_and_says_where_transforms_run() -> None:
    lines = draw_text(graph()).splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.endswith("bonus  (transform by a.b:bonus, within kept)") for line in lines)
