"""A Ray cluster on this machine, in a process of its own, since a process with Ray's threads must not fork.

`python -m faults.nodes` prints the address, then reads words: `node` loses a node and gets another, `process` loses a
process of a node, `cluster` loses everything and starts again. It prints the address after each.
"""

import os
import random
import subprocess
import sys
from typing import Any

NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


class Nodes:
    """The cluster's process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._wait()

    def lose(self, what: str) -> None:
        """Begin to lose a node, a process or the cluster."""
        assert self.process.stdin is not None
        print(what, file=self.process.stdin, flush=True)

    def restored(self) -> None:
        """Wait until what was lost is replaced."""
        self._wait()

    def close(self) -> None:
        """End the cluster."""
        self.process.communicate()

    def _wait(self) -> None:
        assert self.process.stdout is not None
        os.environ["RAY_ADDRESS"] = self.process.stdout.readline().strip()  # where `--cluster auto` looks


def _started() -> Any:
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(initialize_head=True, head_node_args=NODE)
    cluster.add_node(**NODE)
    return cluster


def _serve() -> None:
    import psutil

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints
    cluster = _started()
    print(cluster.address, file=answers, flush=True)
    for line in sys.stdin:
        if line.strip() == "node":
            lost = next(iter(cluster.worker_nodes))
            cluster.remove_node(lost, allow_graceful=False)
            cluster.add_node(**NODE)
        elif line.strip() == "process":
            running = psutil.Process().children(recursive=True)
            works = [found for found in running if "ray::" in found.name() and "Agent" not in found.name()]
            if works:
                random.choice(works).kill()
        else:
            cluster.shutdown()
            cluster = _started()
        print(cluster.address, file=answers, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    _serve()
