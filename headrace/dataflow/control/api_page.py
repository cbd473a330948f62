"""The page of the API: its OpenAPI schema, written out for people; needs nothing from any other host."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font: 600 1rem ui-monospace, monospace; margin: 2rem 0 .3rem; overflow-wrap: anywhere; }
h2 b { display: inline-block; min-width: 3.5rem; }
table { border-collapse: collapse; width: 100%; margin: .3rem 0 .8rem; }
td { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: .2rem .6rem .2rem 0;
     vertical-align: top; }
td:first-child { font-family: ui-monospace, monospace; white-space: nowrap; width: 1%; }
code, pre { font-family: ui-monospace, monospace; }
"""

INTRODUCTION = """
<p>Programs send <code>Authorization: Bearer TOKEN</code>, with the token of the run's
<code>control.json</code>, and <code>x-headrace-who</code> with who asks. The schema itself is
<a href="/openapi.json">/openapi.json</a>.</p>
"""


def render(schema: Mapping[str, Any]) -> str:
    """`schema`: an OpenAPI document, its models under components."""
    models = schema.get("components", {}).get("schemas", {})
    routes = (
        _route(method, path, route, models)
        for path, methods in schema["paths"].items()
        for method, route in methods.items()
    )
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style><h1>{title}</h1>{INTRODUCTION}{''.join(routes)}</html>\n"
    )


def _route(method: str, path: str, route: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    given = [(each["name"], _type(each["schema"]), each) for each in route.get("parameters", [])]
    rows = [_row(name, type_, told) for name, type_, told in given if told["in"] != "header"]
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        rows.extend(_fields(body, models))
    answers = [_row(code, _answered(answer), answer) for code, answer in sorted(route["responses"].items())]
    return (
        f"<h2><b>{escape(method.upper())}</b> {escape(path)}</h2>"
        f"<p>{escape(route.get('description', ''))}</p>"
        f"<table>{''.join(rows)}</table><table>{''.join(answers)}</table>"
    )


def _fields(body: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[str]:
    for name, told in models[_named(body)]["properties"].items():
        yield _row(name, _type(told), told)


def _answered(answer: Mapping[str, Any]) -> str:
    kinds = (_type(content.get("schema", {})) for content in answer.get("content", {}).values())
    return ", ".join(kinds)


def _row(name: str, type_: str, told: Mapping[str, Any]) -> str:
    default = f" Default: {told['default']!r}." if "default" in told else ""
    text = f"{told.get('description', '')}{default}".strip()
    return f"<tr><td>{escape(name)}</td><td><code>{escape(type_)}</code></td><td>{escape(text)}</td></tr>"


def _type(told: Mapping[str, Any]) -> str:
    """As a reader would write it."""
    if "$ref" in told:
        return _named(told)
    if "anyOf" in told:
        return " | ".join(map(_type, told["anyOf"]))
    if "enum" in told or "const" in told:
        return " | ".join(map(str, told.get("enum", [told.get("const")])))
    if told.get("type") == "array":
        return f"list of {_type(told['items'])}"
    if isinstance(inner := told.get("additionalProperties"), Mapping):
        return f"{_type(inner)} by name"
    return f"{told.get('type', '')}{_bounds(told)}"


def _bounds(told: Mapping[str, Any]) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = " and ".join(f"{sign} {told[key]:g}" for key, sign in signs.items() if key in told)
    return f" {bounds}" if bounds else ""


def _named(told: Mapping[str, Any]) -> str:
    return str(told["$ref"]).rpartition("/")[2]
