"""Compare `electra corpus` on your text with bare `tokenizers` on the same cores: speed, memory, tokens kept.

python runs/bench_corpus.py TEXT... --tokenizer vocab.txt [--length 128]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from electra.data.reading.text import read_documents
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer

BATCH = 1000  # lines at a time for bare `tokenizers`


def resident(process: int) -> int:
    """Return the memory of a process and its children, in bytes (Linux)."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * pages + sum(resident(int(child)) for child in children)


def bare(lines: list[str], tokenizer: Tokenizer) -> tuple[float, float]:
    """Time only `encode_batch`; return wall-clock and CPU seconds."""
    start, cpu_start = time.perf_counter(), time.process_time()
    for first in range(0, len(lines), BATCH):
        tokenizer.encode(lines[first : first + BATCH])
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    print(f"bare encode_batch: {wall:.1f} s, {cpu:.1f} s of CPU time", flush=True)
    return wall, cpu


def build(command: list[str]) -> tuple[float, float, int, dict[str, Any]]:
    """Run a build; return wall-clock seconds, CPU seconds, peak memory and the manifest."""
    start, cpu_start = time.perf_counter(), sum(os.times()[2:4])
    process = subprocess.Popen([sys.executable, "-m", "electra", "corpus", *command, "--json"], stdout=subprocess.PIPE)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    answer = process.communicate()[0]
    watcher.join()
    return time.perf_counter() - start, sum(os.times()[2:4]) - cpu_start, peak, json.loads(answer)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--length", default="128")
    arguments = parser.parse_args()
    tokenizer = load_tokenizer(arguments.tokenizer)
    lines = [line for passage in read_documents(arguments.sources) for line in passage.text.split("\n")]
    print(f"{sum(map(len, lines)) / 1e6:.1f} M characters")
    first = bare(lines, tokenizer)
    builds = {}
    for cut in ("sentences", "packed", "paper"):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--tokenizer", arguments.tokenizer, "--length", arguments.length, "--cut", cut]
            builds[cut] = build([*arguments.sources, *options, "--out", f"{folder}/corpus"])
    best_wall, best_cpu = map(min, zip(first, bare(lines, tokenizer), strict=True))
    for cut, (wall, cpu, peak, manifest) in builds.items():
        read = manifest["report"]["tokens_read"]
        print(f"electra corpus --cut {cut}: {wall:.1f} s, {cpu:.1f} s of CPU time, {read / wall / 1e6:.2f} M tokens/s")
        print(f"  relative to bare tokenizers: {best_wall / wall:.2f} in wall-clock, {best_cpu / cpu:.2f} in CPU time")
        print(f"  peak memory {peak / 1e9:.2f} GB; kept {manifest['tokens'] / read:.1%} of {read:,} tokens")


if __name__ == "__main__":
    main()
