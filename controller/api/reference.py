"""The API reference in Markdown: tables of fields, defaults and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.api import defaults
from controller.api.crd_printing import PRINTING
from controller.api.meta import API_VERSION, Kind
from controller.api.reasons import Family, Reason

Schema = Mapping[str, Any]

_INTRO = f"""# API reference

All kinds are `{API_VERSION}` and in the category `brev`, so `kubectl get brev` lists them together.

- **Durations** are whole numbers with the units `h`, `m` and `s`, in that order: `90s`, `20m`, `1h30m`.
- **Money** is a quoted decimal in US dollars with at most six decimals: `"1.25"`. The unit is in the field's name.
- **Times** in status are RFC 3339 in UTC.
- A field that is not listed here does not exist: `kubectl apply` refuses it, a client without strict validation gets a
  warning and the field is dropped.
- An object of more than 256 KiB needs `kubectl apply --server-side` (or `create`): the client-side form keeps a copy of
  it in an annotation, which may not be larger. The API server takes 1.5 MiB in all.
- Texts and lists in status are cut to the limits below; a status stays within 64 KiB.
"""


def reference(schemas: Mapping[Kind, Schema], header: str) -> str:
    """The whole page; `schemas` are the `openAPIV3Schema` of each kind."""
    parts = [header, _INTRO, *(_kind(kind, schema) for kind, schema in schemas.items()), _defaults(), _reasons()]
    return "\n".join(parts)


def _kind(kind: Kind, schema: Schema) -> str:
    printing = PRINTING[kind]
    scope = "namespaced" if kind.namespaced else "cluster"
    selectable = ", ".join(f"`{path.removeprefix('.')}`" for path in printing.selectable)
    lines = [
        f"## {kind.value}",
        "",
        f"{schema['description']} Short name `{printing.short_name}`; scope: {scope}. Field selectors: {selectable}.",
        "",
        "### Spec",
        "",
        *_table(("field", "type", "limits", "meaning"), _fields(schema["properties"]["spec"], "spec")),
        *_rules(schema["properties"]["spec"]),
        "### Status",
        "",
        *_table(("field", "type", "limits", "meaning"), _fields(schema["properties"]["status"], "status")),
    ]
    return "\n".join(lines)


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, ...]]:
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        yield f"`{here}`", _type(child), _limits(child), str(child["description"])
        inner = child.get("items", child)
        yield from _fields(inner, f"{here}[]" if "items" in child else here)


def _type(schema: Schema) -> str:
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _limits(schema: Schema) -> str:
    bounds = []
    if "enum" in schema:
        bounds.append(", ".join(f"`{value}`" for value in schema["enum"]))
    for low, high, unit in (
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " entries"),
        ("minimum", "maximum", ""),
    ):
        if high in schema and schema.get("format") != "date-time":
            bounds.append(f"{schema.get(low, 0)} to {schema[high]}{unit}")
        elif low in schema:
            bounds.append(f"at least {schema[low]}{unit}")
    if keys := schema.get("x-kubernetes-list-map-keys"):
        bounds.append(f"unique by `{keys[0]}`")
    if "pattern" in schema:
        bounds.append(f"`{schema['pattern']}`")
    return "; ".join(bounds)


def _rules(schema: Schema) -> Iterator[str]:
    rules = list(dict.fromkeys(_messages(schema, "spec")))
    if rules:
        yield "Rules across fields and updates:"
        yield ""
        yield from (f"- `{path}`: {message}." for path, message in rules)
        yield ""


def _messages(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, child in schema.get("properties", {}).items():
        yield from _messages(child, f"{path}.{name}")
    if "items" in schema:
        yield from _messages(schema["items"], f"{path}[]")


def _defaults() -> str:
    rows = ((f"`{item.field}`", f"`{item.value}`", item.source) for item in defaults.ALL)
    return "\n".join(["## Defaults", "", *_table(("field", "default", "why"), rows)])


def _reasons() -> str:
    lines = [
        "## Reasons",
        "",
        "Reasons in conditions, attempts, rejected offers and Events never change. A reason's family says who can act.",
        "",
    ]
    for family in Family:
        rows = [(f"`{reason.value}`", reason.meaning) for reason in Reason if reason.family is family]
        if rows:
            lines += [f"### {family.value}", "", *_table(("reason", "meaning"), rows)]
    return "\n".join(lines)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(tuple("---" for _ in head))
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
