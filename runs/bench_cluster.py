"""Compare `electra corpus --cluster` on this machine with local workers on the same cores, in turns.

python runs/bench_cluster.py TEXT... --tokenizer vocab.txt [--turns 3] [--duplicates near]

An address such as file:///data/text is read by the nodes, a path by this process.
"""

import argparse
import os
import statistics
import tempfile
import time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from electra.data.cluster import connected
from electra.data.corpus.build import Progress, build_corpus
from electra.data.settings import Cleaning
from electra.data.subprocesses import available_cores
from electra.data.tokens.tokenizer import load_tokenizer

SHARD = 1 << 22  # characters of a group
PAUSE = 3.0  # seconds, until the processes of the last build are gone


def cpu_seconds(process: int | str = "self") -> float:
    """Return the CPU seconds of a process and of its descendants (Linux)."""
    try:
        ticks = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:15]
        children = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    own = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(child) for child in chain.from_iterable(children))


def _note(seen: list[float], progress: Progress) -> None:
    """Note the CPU seconds so far, while the processes of a build live."""
    seen.append(cpu_seconds())


def main() -> None:
    """Print seconds, CPU seconds, and those of the main thread, which more cores do not shorten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--duplicates", default="keep")
    arguments = parser.parse_args()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (as local workers have)
    from ray.cluster_utils import Cluster

    cores = available_cores()
    nodes: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": cores})
    tokenizer, cleaning = load_tokenizer(arguments.tokenizer), Cleaning(duplicates=arguments.duplicates)
    waited: dict[str, list[float]] = {"local": [], "cluster": []}
    worked: dict[str, list[float]] = {"local": [], "cluster": []}
    for _ in range(arguments.turns):
        start = time.perf_counter()
        with connected(nodes.address):
            print(f"connecting took {time.perf_counter() - start:.1f} s", flush=True)
        for where, address in (("local", None), ("cluster", nodes.address)):
            time.sleep(PAUSE)
            seen = [cpu_seconds()]
            start, thread_start = time.perf_counter(), time.thread_time()
            with tempfile.TemporaryDirectory() as folder:
                built = build_corpus(
                    arguments.sources,
                    tokenizer,
                    length=128,
                    out=f"{folder}/corpus",
                    cleaning=cleaning,
                    shard_characters=SHARD,  # the last group is written after the last progress
                    workers=cores,
                    cluster=address,
                    progress=partial(_note, seen),
                )
                size = built.manifest.report["characters_read"] / 1e6
            waited[where].append(time.perf_counter() - start)
            worked[where].append(seen[-1] - seen[0])
            thread = (time.thread_time() - thread_start) / size * 1000
            print(
                f"{where}: {waited[where][-1]:.1f} s, {worked[where][-1]:.1f} CPU seconds, {thread:.1f} ms of the main "
                "thread for a million characters",
                flush=True,
            )
    nodes.shutdown()
    for what, seconds in {"seconds": waited, "CPU seconds": worked}.items():
        ratio = statistics.median(seconds["cluster"]) / statistics.median(seconds["local"])
        print(f"{what} for {size:.0f} million characters on {cores} cores: cluster / local = {ratio:.3f}")


if __name__ == "__main__":
    main()
