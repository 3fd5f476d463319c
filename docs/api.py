"""The page of the Python API: signature and docstring of every public name."""

import ast
import importlib
import inspect
import re
import textwrap

from entries import table

NOTE = "This page is generated: `make docs`."
PARTS = {  # subpackages with public names, in the order of the page
    "recipes": "Commands as functions",
    "model": "Using a model",
    "config": "Configs",
    "data": "Text, vocabulary, corpus",
    "objectives": "Objectives",
    "playground": "Playground",
    "errors": "Errors",
}
COMMANDS = """Each command is a function of the same name, except for these:

| command | in Python |
|---|---|
| `electra vocab` | `electra.train_vocab` |
| `electra corpus` | `electra.build_corpus` |
| `electra import` | `electra.import_model` |
| `electra detect MODEL TEXT` | `electra.load(MODEL).detect(TEXT)` |
| `electra config PRESET KEY=VALUE` | `electra.load_config(PRESET, ["KEY=VALUE"])` |
| `electra demo`, `electra bench` | none |

Problems with input, config or machine raise an `ElectraError`; its subclasses are in `electra.errors`. Functions print
nothing, except that `train`, `pretrain` and `finetune` show their progress in a terminal or a notebook. Pass
`listeners=[print]` to receive the records that are displayed, or `listeners=[]` for silence.
"""


def python_page() -> str:
    """Return the page: signature and docstring of every public name, and the fields of returned classes."""
    import electra

    page = f"# Python\n\nEvery public name of the package `electra`. {NOTE}\n\n{COMMANDS}"
    homes = {name: getattr(electra, name).__module__.split(".")[1] for name in electra.__all__}
    for part, title in PARTS.items():
        names = [name for name in electra.__all__ if homes[name] == part]
        page += f"\n## {title}\n" if names else ""
        page += "".join(f"\n### electra.{name}\n\n{_describe(getattr(electra, name))}" for name in names)
    return page + _other_types()


def _other_types() -> str:
    """Return a table of the package's other types that appear in signatures, with module and description."""
    import electra

    functions = [getattr(electra, name) for name in electra.__all__ if inspect.isfunction(getattr(electra, name))]
    rows = [["type", "module", "description"]]
    used_by = {name: function for function in functions for name in _types(function)}
    for name, function in sorted(used_by.items()):
        if name in electra.__all__ or name in {cls.__name__ for cls in _returned(function)}:
            continue
        module = _home(function.__module__, name)
        source = inspect.getsource(importlib.import_module(module))
        alias = re.search(rf"^{name} = (.+?)(?:  # (.+))?$", source, re.MULTILINE)
        if alias:
            meaning = f"`{alias[1]}`: {alias[2]}" if alias[2] else f"`{alias[1]}`"
        else:
            meaning = function.__globals__[name].__doc__
        rows.append([f"`{name}`", f"`{module}`", meaning.splitlines()[0]])
    return "\n## Other types in these signatures\n\n" + table(rows) + "\n"


def _types(function) -> set[str]:
    """Return the types in a function's signature that the package defines."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    annotations = [argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs)] + [node.returns]
    names = {part.id for annotation in annotations for part in ast.walk(annotation) if isinstance(part, ast.Name)}
    return {name for name in names if _home(function.__module__, name)}


def _home(module: str, name: str) -> str:
    """Return the module of the package that defines a name, following imports; "" for names from elsewhere."""
    for node in ast.parse(inspect.getsource(importlib.import_module(module))).body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _home(node.module, name) if node.module.startswith("electra") else ""
        if name in [
            getattr(node, "name", None),
            *(getattr(target, "id", None) for target in getattr(node, "targets", [])),
        ]:
            return module
    return ""


def _describe(thing) -> str:
    if inspect.isfunction(thing):
        return _function(thing)
    text = inspect.cleandoc(thing.__doc__) + "\n"
    if issubclass(thing, Exception):
        return text + "\n" + "".join(f"- `{kind.__name__}`: {kind.__doc__}\n" for kind in thing.__subclasses__())
    if hasattr(thing, "model_fields"):  # a config: its keys have their own page
        return text + "\nIts keys: [Config keys](config.md).\n"
    members = [member for name, member in vars(thing).items() if not name.startswith("_") or name == "__init__"]
    return text + "".join("\n" + _function(getattr(member, "fget", member)) for member in members)


def _function(function) -> str:
    """Return a function's signature as written in the code, its docstring and the fields of what it returns."""
    source = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(source).body[0]
    first = min((line.lineno for line in node.decorator_list), default=node.lineno)
    signature = "\n".join(source.splitlines()[first - 1 : node.body[0].lineno - 1])
    text = inspect.cleandoc(function.__doc__) + "\n" if function.__doc__ else ""
    fields = "".join(_fields(given) for given in _returned(function))
    return f"```python\n{signature.removesuffix(':')}\n```\n\n{text}".rstrip() + "\n" + fields


def _returned(function) -> list[type]:
    """Return the package's classes in a return annotation, except those that are public names."""
    import electra

    named = re.findall(r"\w+", str(inspect.get_annotations(function).get("return")))
    found = [function.__globals__.get(name) for name in named]
    ours = [cls for cls in found if inspect.isclass(cls) and cls.__module__.startswith("electra.")]
    return [cls for cls in ours if cls.__name__ not in electra.__all__]


def _fields(cls: type) -> str:
    source = textwrap.dedent(inspect.getsource(cls)).splitlines()
    lines = [node.lineno for node in ast.parse("\n".join(source)).body[0].body if isinstance(node, ast.AnnAssign)]
    fields = "\n".join(["class " + cls.__name__, *(source[line - 1] for line in lines)])
    return f"\n`{cls.__name__}`: {inspect.cleandoc(cls.__doc__)}\n\n```python\n{fields}\n```\n"
