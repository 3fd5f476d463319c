"""The schema as dotted keys: known keys, variants of tagged unions, suggestions for typos."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from electra.config.section import Section


@cache
def known_keys(schema: type[Section], prefix: str = "") -> Mapping[str, FieldInfo]:
    """Return every dotted key that some variant of the schema has."""
    return keys_of_tags(schema, {}, prefix)


def keys_of_tags(schema: type[Section], tags: Mapping[str, Any], prefix: str = "") -> dict[str, FieldInfo]:
    """Return the dotted keys of the variants with these tags, given by their keys; without a tag, those of all."""
    keys: dict[str, FieldInfo] = {}
    for name, field in schema.model_fields.items():
        place = f"{prefix}{name}."
        variant = variant_of(field, tags.get(f"{place}{field.discriminator}")) if field.discriminator else None
        sections = [variant] if variant else variants(field)
        for section in sections:
            found = keys_of_tags(section, tags, place)
            keys |= {key: known for key, known in found.items() if key not in keys}
        if not sections:
            keys[prefix + name] = field
    return keys


def keys_of(section: Section, prefix: str = "") -> dict[str, FieldInfo]:
    """Return the dotted keys of a config, with the fields of its own variants."""
    keys: dict[str, FieldInfo] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        keys |= keys_of(value, f"{prefix}{name}.") if isinstance(value, Section) else {prefix + name: field}
    return keys


def is_set(config: Section, key: str) -> bool:
    """Return whether the user set a key, in a file or on the command line: not a preset or a default."""
    *parents, name = key.split(".")
    section: Section = reduce(getattr, parents, config)
    return name in section.model_fields_set


def variants(field: FieldInfo) -> list[type[Section]]:
    """Return the sections that a field may hold: none for a plain value, several for a tagged union."""
    candidates = get_args(field.annotation) or (field.annotation,)
    return [item for item in candidates if isinstance(item, type) and issubclass(item, Section)]


def variant_of(field: FieldInfo, tag: Any) -> type[Section] | None:
    """Return the section of a tagged union with the tag."""
    return next((section for section in variants(field) if tag in tags_of(section, field)), None)


def tags_of(section: type[Section], field: FieldInfo) -> tuple[Any, ...]:
    """Return the tags that select a section."""
    return get_args(section.model_fields[str(field.discriminator)].annotation)


@cache
def unions(schema: type[Section], prefix: str = "") -> Sequence[tuple[str, FieldInfo]]:
    """Return the tagged unions of the schema, outer ones first."""
    found: list[tuple[str, FieldInfo]] = []
    for name, field in schema.model_fields.items():
        if field.discriminator:
            found.append((prefix + name, field))
        for section in variants(field):
            found += unions(section, f"{prefix}{name}.")
    return found


def admits(field: FieldInfo, value: Any) -> bool:
    """Return whether a Literal field has a value; other fields are left to validation."""
    return get_origin(field.annotation) is not Literal or value in get_args(field.annotation)


def takes_text(field: FieldInfo) -> bool:
    """Return whether the value of a field may be any text."""
    kinds = get_args(field.annotation) or (field.annotation,)
    return any(kind is str or (get_origin(kind) is Annotated and get_args(kind)[0] is str) for kind in kinds)


def dotted(schema: type[Section], location: Iterable[Any]) -> str:
    """Return a validation error's location as a key, without the tags that pydantic inserts; no key has their name."""
    tags = {tag for _, union in unions(schema) for section in variants(union) for tag in tags_of(section, union)}
    return ".".join(item for item in map(str, location) if item not in tags)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion of the nearest known word, as the end of a sentence."""
    known = list(known)
    last_parts = {key.rsplit(".", 1)[-1]: key for key in known}
    near = difflib.get_close_matches(word, known, n=1)
    if not near:
        near = [last_parts[part] for part in difflib.get_close_matches(word.rsplit(".", 1)[-1], last_parts, n=1)]
    return f"; did you mean {near[0]}?" if near else ""
