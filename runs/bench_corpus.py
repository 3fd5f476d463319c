"""Measure `electra corpus` on a text of yours against bare `tokenizers` on the same cores: rate, memory, tokens kept.

python runs/bench_corpus.py TEXT... --tokenizer vocab.txt [--length 128]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from electra.data.text import read_documents
from electra.data.tokenizer import load_tokenizer

BATCH = 1000  # lines at a time for the bare library


def resident(process: int) -> int:
    """Give the memory of a process and of its children, in bytes (Linux)."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 4096 * pages + sum(resident(int(child)) for child in children)


def bare_seconds(sources: list[str], tokenizer_name: str) -> tuple[float, int]:
    """Time `encode_batch` alone, with the text in memory, and count the text's characters."""
    tokenizer = load_tokenizer(tokenizer_name)
    lines = [line for passage in read_documents(sources) for line in passage.text.split("\n")]
    start = time.perf_counter()
    for first in range(0, len(lines), BATCH):
        tokenizer.encode(lines[first : first + BATCH])
    return time.perf_counter() - start, sum(map(len, lines))


def build(command: list[str]) -> tuple[float, int, dict]:
    """Run a build; give its seconds, its greatest memory and its manifest."""
    start = time.perf_counter()
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
    return time.perf_counter() - start, peak, json.loads(answer)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--length", default="128")
    arguments = parser.parse_args()
    bare, characters = bare_seconds(arguments.sources, arguments.tokenizer)
    print(f"bare tokenizers.encode_batch  {bare:7.1f} s  {characters / bare / 1e6:.2f} M characters/s", flush=True)
    for cut in ("packed", "paper"):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--tokenizer", arguments.tokenizer, "--length", arguments.length, "--cut", cut]
            seconds, peak, manifest = build([*arguments.sources, *options, "--out", f"{folder}/corpus"])
        kept = manifest["tokens"] / manifest["report"]["tokens_read"]
        print(
            f"electra corpus --cut {cut:6}    {seconds:7.1f} s  {characters / seconds / 1e6:.2f} M characters/s, "
            f"{bare / seconds:.2f} of bare; peak memory {peak / 1e9:.2f} GB; {kept:.1%} of {manifest['report']['tokens_read']:,} tokens kept",
            flush=True,
        )


if __name__ == "__main__":
    main()
