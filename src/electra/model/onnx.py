"""ONNX: write a network as a graph for onnxruntime, and run such a graph in place of an encoder.

Inputs and outputs have the names that `optimum` expects. Every graph also returns the hidden states, so that our own
heads, which are small and stay in PyTorch, work on it unchanged.
Shapes: B sequences, C options, L tokens, H hidden size.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from electra.config.bodies import ModelConfig
from electra.errors import CheckpointError, ConfigError, remedy
from electra.model.body import Body
from electra.model.networks import Network

GRAPH = "onnx/model.onnx"  # where optimum, sentence-transformers and transformers.js look, also on the hub
HIDDEN = "last_hidden_state"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
AXES = ("batch", "choices", "length")
OPSET = 23  # the first with attention and rotary positions
ANY_SIZE = 2**62  # of a constant
SLOW = ["SkipLayerNormFusion"]  # fuses a sum and a norm to what takes four times as long on a CPU (onnxruntime 1.31)
TOLERANCE = 1e-4  # of the largest output: float32, summed in another order
INT8_TOLERANCE = 0.5  # of the norm of all outputs: beyond it, an output is mostly error


class Graph(nn.Module):
    """A network with the inputs and outputs of its class in `transformers`."""

    def __init__(self, network: Network | Body) -> None:
        super().__init__()
        self.network = network.eval()
        self.encoder = network if isinstance(network, Body) else network.encoder
        self.axes = AXES if isinstance(network, Network) and network.head.compares else (AXES[0], AXES[-1])

    def outputs(self, ids: Tensor, attention: Tensor, types: Tensor | None = None) -> dict[str, Tensor]:
        """Return the outputs by name; each begins with the leading axes of the ids, (B,) or (B, C)."""
        leading = ids.shape[:-1]
        ids, attention = ids.flatten(0, -2), attention.flatten(0, -2)
        hidden = self.encoder(ids, attention, None if types is None else types.flatten(0, -2))
        named = {} if isinstance(self.network, Body) else self.network.head.graph_outputs(hidden, attention)
        return {name: output.view(*leading, *output.shape[1:]) for name, output in (named | {HIDDEN: hidden}).items()}

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs in order."""
        return tuple(self.outputs(*inputs).values())

    def example(self) -> tuple[Tensor, ...]:
        """Return random inputs: ids, an attention mask with padding, and token types if the encoder has them."""
        config = self.encoder.config
        shape = (2,) * (len(self.axes) - 1) + (min(config.max_length, 64),)
        ids = torch.randint(config.vocab_size, shape, generator=torch.Generator().manual_seed(0))
        attention = torch.ones_like(ids)
        attention[-1, ..., shape[-1] // 2 :] = 0
        return (ids, attention, torch.zeros_like(ids)) if config.has_types else (ids, attention)


@torch.no_grad()
def write_graph(network: Network | Body, path: Path, int8: bool) -> float:
    """Write a network as an ONNX file, compare it with the network, and return the largest difference of an output.

    With `int8` the matrices of the encoder become 8-bit integers, a scale for each column; the head stays float32.
    """
    optimizer = _library("onnxscript.optimizer")
    graph = Graph(network)
    path.parent.mkdir(exist_ok=True)
    example = graph.example()
    expected = graph.outputs(*example)
    sizes = {axis: Dim(axis, max=graph.encoder.config.max_length if axis == "length" else None) for axis in graph.axes}
    shapes = tuple({number: sizes[axis] for number, axis in enumerate(graph.axes)} for _ in example)
    with _quiet():
        program = torch.export.export(graph, example, dynamic_shapes=(shapes,))
        inputs, outputs = INPUTS[: len(example)], list(expected)
        settings: dict[str, Any] = {"dynamo": True, "verbose": False, "opset_version": OPSET}
        written: Any = torch.onnx.export(program, input_names=inputs, output_names=outputs, **settings)
        optimizer.optimize_ir(written.model, input_size_limit=ANY_SIZE, output_size_limit=ANY_SIZE)  # parts of weights
        if int8:
            quantize(written.model_proto, path)
        else:
            _library("onnx").save(written.model_proto, path)
    return _compare(expected, Session(path).run(outputs, example), int8)


def quantize(model: Any, path: Path) -> None:
    """Write a graph with its matrices as 8-bit integers; the head, which comes after the hidden states, is kept."""
    quantization = _library("onnxruntime.quantization")
    kept = [node.name for node in _after(model.graph, HIDDEN)]
    del model.graph.value_info[:]  # the library transposes matrices and infers all shapes again
    settings = {"weight_type": quantization.QuantType.QInt8, "per_channel": True, "nodes_to_exclude": kept}
    quantization.quantize_dynamic(model, path, op_types_to_quantize=["MatMul", "Gather"], **settings)


class Session:
    """An ONNX file in onnxruntime, on the CPU; copies share it."""

    def __init__(self, path: Path) -> None:
        self.path, runtime = path, _library("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # errors are raised
        with self._reported():
            providers = ["CPUExecutionProvider"]
            self._session = runtime.InferenceSession(path, options, providers=providers, disabled_optimizers=SLOW)
        self._inputs = self._session.get_inputs()
        hidden = [output for output in self._session.get_outputs() if output.name == HIDDEN]
        if not hidden or not {given.name for given in self._inputs} <= set(INPUTS):
            hint = "write one with: electra export MODEL --format onnx"
            raise CheckpointError(f"{path} has other inputs, or no output {HIDDEN}; {hint}")
        self.width = hidden[0].shape[-1]
        self._fetches = runtime.RunOptions()
        self._fetches.only_execute_path_to_fetches = True

    def run(self, outputs: list[str], inputs: tuple[Tensor, ...]) -> list[np.ndarray]:
        """Return some outputs for ids, attention mask and token types, of which the graph takes the first ones."""
        named = dict(zip(INPUTS, inputs, strict=False))
        feed = {given.name: named[given.name].cpu().numpy() for given in self._inputs}
        with self._reported():
            found: list[np.ndarray] = self._session.run(outputs, feed, self._fetches)
        return found

    def hidden(self, ids: Tensor, attention: Tensor | None, types: Tensor | None) -> Tensor:
        """Return the hidden states (B, L, H) of ids (B, L)."""
        attention = torch.ones_like(ids) if attention is None else attention
        types = torch.zeros_like(ids) if types is None else types
        options = len(self._inputs[0].shape) == len(AXES)  # a graph that compares options gets one of each
        inputs = tuple(part[:, None] if options else part for part in (ids, attention, types))
        states = torch.from_numpy(self.run([HIDDEN], inputs)[0])
        return states.view(*ids.shape, -1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report an error of onnxruntime in one line; its errors have no class in common."""
        try:
            yield
        except Exception as problem:
            if remedy(problem):
                raise
            raise CheckpointError(
                f"{self.path} does not run: {str(problem).splitlines()[0]}; export it again"
            ) from None


class OnnxEncoder(Body):
    """A body whose hidden states come from a session. It has no weights, so it can be used but not trained."""

    placement: Tensor  # empty: the device and type of what is returned

    def __init__(self, config: ModelConfig, session: Session) -> None:
        nn.Module.__init__(self)
        self.config, self.session = config, session
        self.register_buffer("placement", torch.empty(0, device="cpu"), persistent=False)

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        return self.session.hidden(ids, attention, types).to(self.placement)

    def packs(self, dtype: torch.dtype, device: torch.device) -> bool:
        return False

    @contextmanager
    def inferring(self) -> Iterator[None]:
        """Keep PyTorch to one thread: its other ones would spin on the cores that onnxruntime computes on."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def state_dict(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse: whoever asks wants to train or convert the model."""
        raise CheckpointError("an ONNX model cannot be trained or converted; use the model that it was exported from")


def onnx_encoder(body: type[Body], config: ModelConfig, path: Path) -> Body:
    """Return a body of a class, computed by an ONNX file."""
    session = Session(path)
    if session.width != config.hidden_size:
        found = f"{path} has hidden states of width {session.width}"
        raise CheckpointError(f"{found}, but its config.json says {config.hidden_size}; export it again")
    made: Body = type(f"Onnx{body.__name__}", (OnnxEncoder, body), {})(config, session)
    return made


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise ConfigError("ONNX needs an extra; run: pip install '.[onnx]' in the checkout") from None


def _after(graph: Any, tensor: str) -> Iterator[Any]:
    """Yield the nodes of a graph, in order, that depend on a tensor."""
    later = {tensor}
    for node in graph.node:
        if later.intersection(node.input):
            later.update(node.output)
            yield node


def _compare(expected: dict[str, Tensor], found: list[np.ndarray], int8: bool) -> float:
    """Return the largest difference relative to the largest output, or with int8 to their norm; or raise an error."""
    most = 0.0
    for (name, wanted), output in zip(expected.items(), found, strict=True):
        difference = (wanted - torch.from_numpy(output)).abs()
        share = difference.norm() / wanted.norm() if int8 else difference.max() / wanted.abs().max()
        if not share <= (INT8_TOLERANCE if int8 else TOLERANCE):
            hint = "; export it without --int8" if int8 else ""
            raise CheckpointError(f"onnxruntime does not reproduce {name}: it differs by {share:.2g} of its size{hint}")
        most = max(most, share.item())
    return most


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the libraries' warnings, which are about their own code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
