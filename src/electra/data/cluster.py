"""Run the work of a command on a Ray cluster; a lost node costs only the calls that ran there."""

import logging
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from electra import __version__
from electra.data.files import exists
from electra.errors import ClusterError, ElectraError, reason

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 10.0  # seconds to wait for an address
RETRIES = 20  # of a call whose node or process was lost
READ_AHEAD = 64  # pairs of a stream that wait to be used
MOST_STEPS = 4  # in the memory of a process: those of one command
PACKAGES = ("numpy", "tokenizers", "torch")  # that results depend on
_steps: dict[str, Any] = {}  # that this process of the cluster unpickled


class Cluster:
    """A connection to a Ray cluster."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.gpus = int(ray.cluster_resources().get("GPU", 0))
        self.cores = int(ray.cluster_resources().get("CPU", 1))

    def starter(self, step: Callable[..., Any], *, on_gpus: bool = False, **options: Any) -> Callable[..., Any]:
        """Return a function that starts a call of `step` in the cluster and returns a reference to its result.

        A process unpickles `step` only once. With `on_gpus`, each call has a GPU to itself, if there are any.
        """
        resources = {"num_gpus": 1} if on_gpus and self.gpus else {"num_cpus": 1}
        call = self.ray.remote(_stream if options.get("num_returns") == "streaming" else _call)
        start = call.options(max_retries=RETRIES, **(resources | options)).remote
        stored = [self.ray.put(step)]
        return partial(start, stored)

    def result(self, reference: Any) -> Any:
        """Wait for a result and fetch it; an error of the call is raised here."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as problem:
            raise problem.cause from None
        except self.ray.exceptions.RayError as problem:
            raise ClusterError(f"the cluster lost a call {RETRIES} times: {_last_line(problem)}") from None

    def in_order(self, step: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Call `step` with each item in the cluster, on a GPU if it has any, and yield items and results in order."""
        most = 2 * (self.gpus or self.cores)  # keeps all busy
        for item, answer in ahead(items, self.starter(step, on_gpus=True), most):
            yield item, self.result(answer)

    def streams(
        self, step: Callable[[Item], Iterator[tuple[Result, Any]]], items: Iterable[Item], most: int
    ) -> Iterator[tuple[Result, Any]]:
        """Call a generator of pairs with each item, some ahead of time, and yield in order what they yield.

        The second of a pair stays in the cluster: it is yielded as a reference.
        """
        limits: dict[str, Any] = {"num_cpus": 0, "_generator_backpressure_num_objects": 2 * READ_AHEAD}
        for _, pairs in ahead(items, self.starter(step, num_returns="streaming", **limits), most):
            for first in pairs:
                yield self.result(first), next(pairs)

    def check_nodes(self, check: Callable[[], Result]) -> list[tuple[str, Result]]:
        """Call a function on every node and return their names and results; the error of a call names its node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in self.ray.nodes() if node["Alive"]]
        places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        call = self.ray.remote(_checked)
        asked = [call.options(num_cpus=0, scheduling_strategy=place).remote(check) for place in places]
        found: list[tuple[str, Result]] = []
        for node, answer in zip(nodes, asked, strict=True):
            name = node["NodeManagerHostname"]
            try:
                found.append((name, self.ray.get(answer)))
            except (self.ray.exceptions.TaskUnschedulableError, self.ray.exceptions.NodeDiedError):
                continue  # lost in the meantime
            except self.ray.exceptions.RayError as problem:
                cause = getattr(problem, "cause", None)
                said = str(cause) if isinstance(cause, ElectraError) else f"cannot run electra: {_last_line(problem)}"
                raise ClusterError(f"{name}: {said}") from None
        return found

    def check_versions(self) -> None:
        """Raise an error if a node has other versions of the packages than this machine."""
        ours = _versions()
        for name, theirs in self.check_nodes(_versions):
            for package, found in theirs.items():
                if found != ours[package]:
                    wanted = f"{package} {found}, but this machine has {ours[package]}"
                    raise ClusterError(f"{name} has {wanted}; install the same versions on all nodes")


def ahead(items: Iterable[Item], start: Callable[[Item], Result], most: int) -> Iterator[tuple[Item, Result]]:
    """Start work on `most` items ahead of the one whose result is yielded; more would need more memory."""
    pending: deque[tuple[Item, Result]] = deque()
    for item in items:
        pending.append((item, start(item)))
        if len(pending) > most:
            yield pending.popleft()
    while pending:
        yield pending.popleft()


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to a Ray cluster: `auto` for the one of this machine, or HOST:PORT; all nodes must have our versions."""
    try:
        import ray
        from ray._private.services import canonicalize_bootstrap_address
    except ImportError:
        raise ClusterError("a cluster needs ray; run: pip install '.[ray]' in the checkout") from None
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        if threading.current_thread() is threading.main_thread():  # else Ray leaves them alone
            for number, handler in handlers.items():
                if handler is not None:
                    signal.signal(number, handler)

    try:
        found = canonicalize_bootstrap_address(address)
        if found is None:
            raise ConnectionError("no Ray runs on this machine; start it with: ray start --head")
        host, _, port = found.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()  # Ray would wait for minutes
        ray.init(found, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as problem:  # unreachable, another version of Ray or of Python
        raise ClusterError(f"cannot use the cluster {address}: {reason(problem)}") from None
    finally:
        restore()
    try:
        cluster = Cluster(ray)
        cluster.check_versions()
        yield cluster
    finally:
        ray.shutdown()
        restore()  # its C++ code sets them to the system's, which Python does not notice


def absolute(name: str | Path) -> str:
    """Return a name with which every node finds the same file: nodes have other working directories."""
    return str(Path(name).expanduser().resolve()) if exists(name) else str(name)


def _call(stored: list[Any], *arguments: Any) -> Any:
    """Call a stored step, in a process of the cluster."""
    return _unpickled(stored)(*arguments)


def _stream(stored: list[Any], item: Any) -> Iterator[Any]:
    """Yield the parts of the pairs that a stored step yields."""
    for first, second in _unpickled(stored)(item):
        yield first
        yield second


def _checked(check: Callable[[], Any]) -> Any:
    return check()


def _unpickled(stored: list[Any]) -> Callable[..., Any]:
    """Return a step that is stored in a list, so that Ray does not unpickle it for every call."""
    import ray

    if not ray.get_gpu_ids():
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the call has one core
    key = stored[0].hex()
    if key not in _steps:
        if len(_steps) == MOST_STEPS:
            _steps.clear()
        _steps[key] = ray.get(stored[0])
    step: Callable[..., Any] = _steps[key]
    return step


def _last_line(problem: BaseException) -> str:
    """Return the last line of an error, which follows a traceback."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[-1] if lines else reason(problem)


def _versions() -> dict[str, str]:
    return {"electra": __version__, "Python": sys.version.split()[0]} | {name: version(name) for name in PACKAGES}
