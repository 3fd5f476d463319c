"""Draw from the ledger the curves of docs/reading.md and the scores of the README: python docs/figures.py [FOLDER]."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from entries import RESULTS, TASKS, common_tasks, curves, records
from matplotlib.axes import Axes

DOCS = Path(__file__).parent
FIGURES = {  # picture: the run's metrics in the ledger, and what the reader should look at: (step, AUC, words, offset)
    "healthy": (
        "2026-11-16-claim/claim-electra.jsonl",
        [(2000, 0.72, "it reads from the first minute on", (6, 30)), (44_000, 0.25, "and dares more", (-30, -22))],
    ),
    "plateau-left": (
        "2026-11-16-small-8-minutes/metrics.jsonl",
        [
            (6000, 0.696, "the plateau", (-18, -16)),
            (12_000, 0.888, "it begins to read", (-40, 10)),
            (16_000, 0.848, "and so does the generator", (6, -16)),
        ],
    ),
    "plateau": (
        "2026-11-15-small-5-minutes/metrics.jsonl",
        [
            (250, 0.855, "against random tokens", (12, 0)),
            (750, 0.558, "the generator has learnt frequencies", (14, -12)),
        ],
    ),
    "collapsed": (
        "2026-11-15-short-ablation/electra_15.jsonl",
        [(1500, 0.504, "chance", (0, 8)), (1500, 1.0, "everything is called replaced", (-60, -14))],
    ),
}
BLUE, ORANGE, GREEN, GREY = "#2a6f97", "#e07a3f", "#5b8c5a", "#6b7280"
SERIES = (BLUE, ORANGE, "#8db8d2", "#f2b48f")  # of two pairs of models: the second is the first, paler
STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",  # words stay words
    "svg.hashsalt": "electra",  # the same bytes each time
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "lines.linewidth": 2,
}


def draw(metrics: Path, remarks: list[tuple[float, float, str, tuple[int, int]]], out: Path) -> None:
    """Draw a run on held-out text: how well replaced tokens are found, and the generator's loss below."""
    points = [record for record in records(metrics) if "heldout_loss" in record]
    with plt.rc_context(STYLE):
        figure, (found, loss) = plt.subplots(2, figsize=(7, 4.6), sharex=True, height_ratios=(3, 2))
        _curve(found, points, "discriminator_auc", "AUC", BLUE)
        _curve(found, points, "discriminator_recall", "recall", ORANGE)
        found.set(ylim=(0, 1.05), ylabel="replaced tokens found")
        for step, value, words, offset in remarks:
            found.annotate(words, (step, value), offset, textcoords="offset points", color=GREY)
        _curve(loss, points, "generator_loss", "generator's loss", GREEN)
        loss.set(ylabel="generator's loss", xlabel="updates", ylim=(3, 11))
        loss.xaxis.set_major_formatter("{x:,.0f}")
        figure.align_ylabels()
        figure.legend(loc="upper center", ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.94))
        figure.savefig(out, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _curve(axes: Axes, points: list[dict[str, float]], metric: str, label: str, color: str) -> None:
    axes.plot([p["step"] for p in points], [p[f"heldout_{metric}"] for p in points], color=color, label=label)


def draw_scores(results: Path, out: Path) -> None:
    """Draw the mean score of models over the FLOPs and the minutes of their pre-training; nothing without points."""
    lines = curves(results)
    if not lines:
        return
    tasks = common_tasks([point for line in lines.values() for point in line])
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
        for axes, label, cost in zip(panels, ("FLOPs", "minutes"), ("flops", "seconds"), strict=True):
            for color, (model, line) in zip(SERIES, lines.items(), strict=False):
                places = [getattr(point, cost) / (60 if cost == "seconds" else 1) for point in line]
                means, deviations = zip(*(point.mean(tasks) for point in line), strict=True)
                axes.errorbar(places, means, deviations, color=color, label=model, marker="o", capsize=3)
            axes.set_xlabel(f"{label} of pre-training")
            axes.set_xlim(left=0)
        panels[0].set_ylabel("mean score, percent")
        figure.text(0.5, 0.01, "mean of " + ", ".join(TASKS[task] for task in tasks), ha="center", color=GREY, size=8)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="upper center", ncols=len(lines), frameon=False)
        figure.tight_layout(rect=(0, 0.04, 1, 0.92))
        figure.savefig(out, metadata={"Date": None, "Creator": None})
        plt.close(figure)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (run, remarks) in FIGURES.items():
        draw(RESULTS / run, remarks, folder / f"{name}.svg")
    draw_scores(RESULTS, folder / "scores.svg")
