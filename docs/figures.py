"""Draw the figures of the pages from the ledger and the model in the package: python docs/figures.py [FOLDER]."""

import sys
from html import escape
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from differences import half_width
from entries import GLUE, PUBLISHED, RESULTS, Point, points, published_scores, records
from matplotlib.axes import Axes

DOCS = Path(__file__).parent
DETECT = "As soon as the sun rose, they went on there way."  # the first example of docs/quickstart.md
FIGURES = {  # figure: the run's metrics in the ledger, and its annotations: (step, AUC or recall, text, offset)
    "healthy": (
        "2026-11-16-claim/claim-electra.jsonl",
        [(2000, 0.72, "uses context from the first minute", (6, 30)), (44_000, 0.25, "recall rises too", (-30, -22))],
    ),
    "plateau-left": (
        "2026-11-16-small-8-minutes/metrics.jsonl",
        [
            (6000, 0.696, "plateau", (-18, -16)),
            (12_000, 0.888, "starts to use context", (-40, 10)),
            (16_000, 0.848, "so does the generator", (6, -16)),
        ],
    ),
    "plateau": (
        "2026-11-15-small-5-minutes/metrics.jsonl",
        [
            (250, 0.855, "against random tokens", (12, 0)),
            (750, 0.558, "the generator has learned frequencies", (14, -12)),
        ],
    ),
    "collapsed": (
        "2026-11-15-short-ablation/electra_15.jsonl",
        [(1500, 0.504, "chance", (0, 8)), (1500, 1.0, "every token called replaced", (-60, -14))],
    ),
}
CLAIM = "2026-11-19-claim-five-minutes"  # the entry of the README's plot: ELECTRA, BERT, untrained, in this order
# Longer runs of ELECTRA: the presets of two entries.
RECORDS = {"2026-11-18-ten-minute-record": "quick", "2026-11-19-twenty-minutes-record": "modern-19x512"}
BLUE, ORANGE, GREEN, GRAY = "#2a6f97", "#e07a3f", "#5b8c5a", "#6b7280"
STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "electra",  # reproducible bytes
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": GRAY,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "lines.linewidth": 2,
}


def draw(metrics: Path, annotations: list[tuple[float, float, str, tuple[int, int]]], out: Path) -> None:
    """Draw AUC and recall of a run on held-out text, and the generator's loss below."""
    points = [record for record in records(metrics) if "heldout_loss" in record]
    with plt.rc_context(STYLE):
        figure, (found, loss) = plt.subplots(2, figsize=(7, 4.6), sharex=True, height_ratios=(3, 2))
        _curve(found, points, "discriminator_auc", "AUC", BLUE)
        _curve(found, points, "discriminator_recall", "recall", ORANGE)
        found.set(ylim=(0, 1.05), ylabel="detection")
        for step, value, text, offset in annotations:
            found.annotate(text, (step, value), offset, textcoords="offset points", color=GRAY)
        _curve(loss, points, "generator_loss", "generator loss", GREEN)
        loss.set(ylabel="generator loss", xlabel="updates", ylim=(3, 11))
        loss.xaxis.set_major_formatter("{x:,.0f}")
        figure.align_ylabels()
        figure.legend(loc="upper center", ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.94))
        figure.savefig(out, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _curve(axes: Axes, points: list[dict[str, float]], metric: str, label: str, color: str) -> None:
    axes.plot([p["step"] for p in points], [p[f"heldout_{metric}"] for p in points], color=color, label=label)


def draw_scores(entry: Path, records: dict[str, str], out: Path) -> None:
    """Draw the mean of GLUE's tasks against minutes of pre-training: the three models of an entry, and the records.

    What follows a comma in the name of a model is not shown.
    """
    found = points(entry)
    runs = sorted({point.runs(task) for point in found for task in GLUE})
    over = ["pre-training"] * (runs[-1] > 1) + ["fine-tuning"] * (runs[0] == 1)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 3.8))
        for color, model in zip((BLUE, ORANGE, GRAY), dict.fromkeys(point.model for point in found), strict=True):
            line = sorted((point for point in found if point.model == model), key=lambda point: point.seconds)
            minutes, means, halves = zip(*((p.seconds / 60, p.mean(), half_interval(p)) for p in line), strict=True)
            axes.errorbar(
                minutes, means, halves, color=color, label=model.partition(",")[0], marker="o", capsize=3, clip_on=False
            )
        for folder, size in records.items():
            (point,) = points(entry.with_name(folder))
            place, half = (point.seconds / 60, point.mean()), half_interval(point)
            axes.errorbar(*place, half, color=BLUE, marker="o", capsize=3)
            axes.annotate(size, place, (-8, 2), textcoords="offset points", color=BLUE, ha="right")
        score = fmean(published_scores())
        axes.axhline(score, color=GRAY, linewidth=1, linestyle="--")
        axes.annotate(
            PUBLISHED[1].partition(" (")[0], (0, score), (4, 4), textcoords="offset points", color=GRAY, size=8
        )
        axes.set(xlabel="minutes of pre-training", ylabel="mean score (%)")
        axes.set_xlim(left=0)
        explained = (
            f"mean of {', '.join(GLUE.values())}\n"
            f"{' or '.join(map(str, runs))} pre-training seed{'s' * (runs != [1])} per point; "
            f"bars: 95 % interval over {' or '.join(over)} seeds"
        )
        figure.text(0.5, 0.01, explained, ha="center", color=GRAY, size=8)
        figure.legend(loc="upper center", ncols=4, frameon=False, columnspacing=1, handletextpad=0.3, fontsize=9)
        figure.tight_layout(rect=(0, 0.08, 1, 0.92))
        figure.savefig(out, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def half_interval(point: Point) -> float:
    """Return half the width of the interval of a point's mean; tasks with one seed are taken as exact."""
    repeated = [task for task in GLUE if len(point.seeds(task)) > 1]
    return half_width(point.samples(repeated)) * len(repeated) / len(GLUE)


def draw_detect(text: str, out: Path) -> None:
    """Draw what `electra detect TEXT` prints in a terminal, with the probability below each token of at least 50 %."""
    import electra
    from electra.cli.colors import shade

    wide = 10  # of one character; textLength fits any monospaced font to it
    command = f'$ electra detect "{text}"'
    total = wide * (len(command) + 4)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="126" viewBox="0 0 {total} 126"',
        'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="16.5" fill="#ffffff">',
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
        f'<text x="20" y="36" textLength="{wide * len(command)}" fill="#9aa4b2">{escape(command)}</text>',
    ]
    for _, exact, (start, end) in electra.load(device="cpu").detect(text):
        probability = round(exact, 2)  # the same on every machine
        left, width = wide * (2 + start), wide * (end - start)
        color = shade(probability).split()[1]
        parts.append(f'<rect x="{left}" y="55" width="{width}" height="24" rx="3" fill="{color}"/>')
        if probability >= 0.5:
            place = f'x="{left + width // 2}" y="102" text-anchor="middle"'
            parts.append(f'<text {place} fill="#ff7b84">{probability:.0%}</text>')
    parts.append(f'<text x="20" y="72" textLength="{wide * len(text)}">{escape(text)}</text>')
    out.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (run, annotations) in FIGURES.items():
        draw(RESULTS / run, annotations, folder / f"{name}.svg")
    draw_scores(RESULTS / CLAIM, RECORDS, folder / "scores.svg")
    draw_detect(DETECT, folder / "detect.svg")
