"""Load configs from presets, files and `key=value` overrides, and write them as TOML."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import ValidationError

from electra.config import PRESETS, preset_names
from electra.config.finetune import FinetuneConfig
from electra.config.keys import (
    admits,
    did_you_mean,
    dotted,
    keys_of,
    known_keys,
    tags_of,
    takes_text,
    unions,
    variant_of,
    variants,
)
from electra.config.schema import PretrainConfig
from electra.config.section import Root, Section
from electra.errors import ConfigError

AnyRoot = TypeVar("AnyRoot", bound=Root)
PRESET = "preset "  # how the origin of a setting from a preset begins


@dataclass(frozen=True)
class Setting:
    """The value of a key and the layer that set it."""

    value: Any
    origin: str


Settings = dict[str, Setting]
Layer = tuple[str, list[dict[str, Any]]]  # origin, groups of settings


def load_config(
    source: str | Path | Mapping[str, Any], overrides: Iterable[str] = (), *later: Iterable[str]
) -> PretrainConfig:
    """Load a pre-training config: default < preset < file (or a stored config) < `key=value` < later lists of these."""
    return validate(PretrainConfig, gather(PretrainConfig, source, overrides, *later))


def load_finetune_config(source: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> FinetuneConfig:
    """Load a fine-tuning config: default < preset < file (or a stored config) < `key=value`."""
    return validate(FinetuneConfig, gather(FinetuneConfig, source, overrides))


def dump_config(config: Section) -> str:
    """Return a config as TOML, from which an equal one is loaded."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def text_override(key: str, value: str | Path) -> str:
    """Return a `key=value` with a text value, which may look like a number or a date: out = "2024"."""
    return tomli_w.dumps({key: str(value)}).strip()


def explain(config: Root, settings: Settings) -> dict[str, tuple[Setting, str]]:
    """Return for every key of a config its value, what set it and what it means."""
    known = keys_of(config)

    def origin(key: str, value: Any) -> str:
        if key in settings:
            return settings[key].origin
        return "default" if value == known[key].default else "model.body"  # which knows the usual generator

    values = flatten(config.model_dump()).items()
    return {key: (Setting(value, origin(key, value)), known[key].description or "") for key, value in values}


def difference(one: Section, other: Section) -> dict[str, tuple[Any, Any]]:
    """Return the keys in which two configs differ, with both values; a missing key is None."""
    left, right = flatten(one.model_dump()), flatten(other.model_dump())
    return {key: (left.get(key), right.get(key)) for key in left | right if left.get(key) != right.get(key)}


def gather(schema: type[Root], source: str | Path | Mapping[str, Any], *overrides: Iterable[str]) -> Settings:
    """Merge preset, file and lists of overrides into settings with their origins, without validation."""
    settings: Settings = {}
    known = known_keys(schema)
    for origin, layer in _layers(schema, source, overrides):
        given = [key for values in layer for key in values]
        for key in given:
            if key not in known:
                raise ConfigError(f"unknown config key {key} ({origin}){did_you_mean(key, known)}")
        for group in schema.alternatives:
            if any(key in group for key in given):
                settings = {key: setting for key, setting in settings.items() if key not in group}
        for values in layer:
            for path, union in unions(schema):
                tag = f"{path}.{union.discriminator}"
                if tag in values and (tag not in settings or settings[tag].value != values[tag]):
                    _forget_other_variants(settings, path, variant_of(union, values[tag]))
            settings |= {key: Setting(value, origin) for key, value in values.items()}
    return settings


def validate(schema: type[AnyRoot], settings: Settings) -> AnyRoot:
    """Turn settings into a config, or raise a one-line error that names the key."""
    try:
        config = schema.model_validate(_with_tags(schema, _nest(settings)))
    except ValidationError as problem:
        raise ConfigError(_one_line(schema, settings, problem)) from None
    for key, setting in settings.items():
        if setting.origin.startswith(PRESET):  # the corpus or the task may overrule a preset, but not the user
            *parents, name = key.split(".")
            reduce(getattr, parents, config).model_fields_set.discard(name)
    return config


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables into dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _layers(
    schema: type[Root], source: str | Path | Mapping[str, Any], overrides: Iterable[Iterable[str]]
) -> Iterable[Layer]:
    """Yield each layer; the settings of a file form one group, overrides one each."""
    names = preset_names(schema.command)
    if isinstance(source, Mapping):
        yield "stored config", [flatten(dict(source))]
    elif isinstance(source, str) and source in names:  # a Path is a file, or a folder that has one
        yield from _preset(schema, source)
    else:
        path = Path(source) / "config.toml" if Path(source).is_dir() else Path(source)
        if not path.is_file():
            hint = f"{did_you_mean(str(source), names)} (presets: {', '.join(names)})"
            raise ConfigError(f"no preset or config file {str(source)!r}{hint}")
        yield from _file(schema, str(path), path.read_bytes())
    for given in overrides:
        if isinstance(given, str):
            raise ConfigError(f"overrides must be a list: [{given!r}]")
        yield "command line", [_parse_override(schema, override) for override in given]


def _preset(schema: type[Root], name: str) -> Iterable[Layer]:
    return _file(schema, f"{PRESET}{name}", (PRESETS / schema.command / f"{name}.toml").read_bytes())


def _file(schema: type[Root], origin: str, content: bytes) -> Iterable[Layer]:
    """Yield the layers of a file or preset: those of the preset that it begins with, if any, then its own."""
    values = _parse(content, origin)
    if preset := values.pop("preset", None):
        names = preset_names(schema.command)
        if preset not in names:
            raise ConfigError(f"{origin}: unknown preset {preset!r}; choose from {', '.join(names)}")
        yield from _preset(schema, preset)
    yield origin, [values]


def _parse(content: bytes, where: str) -> dict[str, Any]:
    try:
        return flatten(_parse_toml(content.decode("utf-8-sig")))
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{where}: not valid TOML: {problem}") from None


def _parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise an error also for values that messages could not show, such as endless hexadecimal ones."""
    values = tomllib.loads(text)
    json.dumps(flatten(values), default=str)
    return values


def _parse_override(schema: type[Root], override: str) -> dict[str, Any]:
    key, equals, raw = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"{override!r} is not of the form key=value, such as {schema.example}")
    key, value = key.strip(), _parse_value(raw)
    field = known_keys(schema).get(key)
    if field and takes_text(field) and not isinstance(value, str | list | dict):
        value = raw.strip()  # a name that looks like a number: table.label=1
    return {key: value}


def _parse_value(raw: str) -> Any:
    try:
        return _parse_toml(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return raw  # a bare word is a string: objective.name=mlm needs no quotes


def _forget_other_variants(settings: Settings, path: str, variant: type[Section] | None) -> None:
    """Drop settings of lower layers for a variant that is no longer chosen."""
    kept = known_keys(variant, f"{path}.") if variant else {}
    for key in [key for key in settings if key.startswith(f"{path}.")]:
        if key not in kept or not admits(kept[key], settings[key].value):
            del settings[key]


def _nest(settings: Settings) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, setting in settings.items():
        *parents, name = key.split(".")
        reduce(lambda table, parent: table.setdefault(parent, {}), parents, nested)[name] = setting.value
    return nested


def _with_tags(schema: type[Section], nested: dict[str, Any]) -> dict[str, Any]:
    """Set missing tags to the first variant of a union, so that configs from before the union keep their meaning."""
    for name, field in schema.model_fields.items():
        section, chosen = nested.get(name), next(iter(variants(field)), None)
        if isinstance(section, dict) and chosen:
            if tag := field.discriminator:
                chosen = variant_of(field, section.setdefault(str(tag), tags_of(chosen, field)[0]))
            nested[name] = _with_tags(chosen, section) if chosen else section
    return nested


def _one_line(schema: type[Section], settings: Settings, problem: ValidationError) -> str:
    error = problem.errors(include_url=False)[0]
    key = dotted(schema, error["loc"])
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
    if error["type"] == "list_type":
        message = f"should be a list: '[{error['input']}]'"
    if error["type"].startswith("union_tag"):
        key = f"{key}.{error['ctx']['discriminator'].strip(chr(39))}"
        message = f"should be one of {error['ctx'].get('expected_tags')}"
    if error["type"] in ("missing", "union_tag_not_found"):
        return f'config key {key} is missing; set it, or start the file with preset = "small"'
    if error["type"] == "extra_forbidden":
        section = key.rpartition(".")[0]
        chosen = ", ".join(f"{k} = {json.dumps(s.value)}" for k, s in settings.items() if k in _tags(schema, section))
        return f"config key {key} does not apply{f' with {chosen}' if chosen else ''}"
    if key in settings:
        return f"{key} = {json.dumps(settings[key].value, default=str)} ({settings[key].origin}) {message}"
    return f"{key}: {message}" if key else message


def _tags(schema: type[Section], section: str) -> set[str]:
    return {f"{path}.{union.discriminator}" for path, union in unions(schema) if section.startswith(path)}
