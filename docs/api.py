"""The page of the Python API: every public name as the code has it."""

import ast
import importlib
import inspect
import re
import textwrap

from entries import table

NOTE = "This page is generated: `make docs`."
PARTS = {  # the parts of the package that have public names, in the order of the page
    "recipes": "What the commands do",
    "model": "A model in use",
    "config": "Configs",
    "data": "Text, vocabulary, corpus",
    "objectives": "Objectives",
    "playground": "A page to play with",
    "errors": "Errors",
}
COMMANDS = """Each command is a function of the same name, but for these:

| command | in Python |
|---|---|
| `electra vocab` | `electra.train_vocab` |
| `electra corpus` | `electra.build_corpus` |
| `electra import` | `electra.import_model` |
| `electra detect MODEL TEXT` | `electra.load(MODEL).detect(TEXT)` |
| `electra config PRESET KEY=VALUE` | `electra.load_config(PRESET, ["KEY=VALUE"])` |
| `electra demo`, `electra bench` | none |

Errors that are no bugs are an `ElectraError`; its kinds are in `electra.errors`. Functions print nothing: a listener,
such as `print`, gets the records that the command shows.
"""


def python_page() -> str:
    """Give the signature and the docstring of every public name, and the fields of what they give back."""
    import electra

    page = f"# Python\n\nEvery name of `import electra`. {NOTE}\n\n{COMMANDS}"
    homes = {name: getattr(electra, name).__module__.split(".")[1] for name in electra.__all__}
    for part, title in PARTS.items():
        names = [name for name in electra.__all__ if homes[name] == part]
        page += f"\n## {title}\n" if names else ""
        page += "".join(f"\n### electra.{name}\n\n{_described(getattr(electra, name))}" for name in names)
    return page + _other_types()


def _other_types() -> str:
    """Say of each type of ours in the signatures, unless it is a public name, what it is and where it comes from."""
    import electra

    functions = [getattr(electra, name) for name in electra.__all__ if inspect.isfunction(getattr(electra, name))]
    rows = [["type", "from", "what it is"]]
    used_by = {name: function for function in functions for name in _types(function)}
    for name, function in sorted(used_by.items()):
        if name in electra.__all__ or name in {cls.__name__ for cls in _given_back(function)}:
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
    """Give the names of ours in a function's head."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    heads = [argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs)] + [node.returns]
    names = {part.id for head in heads for part in ast.walk(head) if isinstance(part, ast.Name)}
    return {name for name in names if _home(function.__module__, name)}


def _home(module: str, name: str) -> str:
    """Follow the imports of a name from a module of ours to that which defines it; nothing where it is not ours."""
    for node in ast.parse(inspect.getsource(importlib.import_module(module))).body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _home(node.module, name) if node.module.startswith("electra") else ""
        if name in [
            getattr(node, "name", None),
            *(getattr(target, "id", None) for target in getattr(node, "targets", [])),
        ]:
            return module
    return ""


def _described(thing) -> str:
    if inspect.isfunction(thing):
        return _function(thing)
    text = inspect.cleandoc(thing.__doc__) + "\n"
    if issubclass(thing, Exception):
        return text + "\n" + "".join(f"- `{kind.__name__}`: {kind.__doc__}\n" for kind in thing.__subclasses__())
    if hasattr(thing, "model_fields"):  # a config: its keys have a page of their own
        return text + "\nIts keys: [Config keys](config.md).\n"
    members = [member for name, member in vars(thing).items() if not name.startswith("_") or name == "__init__"]
    return text + "".join("\n" + _function(getattr(member, "fget", member)) for member in members)


def _function(function) -> str:
    """Give a function's head as it stands in the code, its docstring, and the fields of what it gives back."""
    source = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(source).body[0]
    first = min((line.lineno for line in node.decorator_list), default=node.lineno)
    head = "\n".join(source.splitlines()[first - 1 : node.body[0].lineno - 1])
    text = inspect.cleandoc(function.__doc__) + "\n" if function.__doc__ else ""
    fields = "".join(_fields(given) for given in _given_back(function))
    return f"```python\n{head.removesuffix(':')}\n```\n\n{text}".rstrip() + "\n" + fields


def _given_back(function) -> list[type]:
    """Give the classes of ours in what a function returns that are not public names themselves."""
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
