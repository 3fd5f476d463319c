"""Pre-train your own text encoder by replaced token detection, and fine-tune it.

Names are loaded when first used, so that `import electra` costs no torch.
"""

import os

TYPE_CHECKING = False  # without importing `typing`: a signal is only handled after the first imports
if TYPE_CHECKING:
    from electra.config.finetune import FinetuneConfig as FinetuneConfig
    from electra.config.load import load_config as load_config
    from electra.config.load import load_finetune_config as load_finetune_config
    from electra.config.schema import PretrainConfig as PretrainConfig
    from electra.data.corpus.build import build_corpus as build_corpus
    from electra.data.tokens.tokenizer import Tokenizer as Tokenizer
    from electra.data.tokens.tokenizer import load_tokenizer as load_tokenizer
    from electra.data.tokens.vocab import train_vocab as train_vocab
    from electra.errors import ElectraError as ElectraError
    from electra.model.pretrained import Pretrained as Pretrained
    from electra.model.pretrained import load as load
    from electra.objectives.build import build_objective as build_objective
    from electra.playground.play import play as play
    from electra.recipes.convert import export as export
    from electra.recipes.convert import import_model as import_model
    from electra.recipes.evaluate import evaluate as evaluate
    from electra.recipes.evaluate import predict as predict
    from electra.recipes.finetune import finetune as finetune
    from electra.recipes.flops import flops as flops
    from electra.recipes.glue import glue as glue
    from electra.recipes.pretrain import pretrain as pretrain
    from electra.recipes.report.page import report as report
    from electra.recipes.train import train as train

# PyTorch reads these when it is first imported. On ARM it gives freed memory back after 10 ms and gets it again a
# moment later: a sixth of a training step. And its threads wait for each other by spinning, for so long that two
# programs on the same cores, each waiting for a thread that the other one keeps from running, may hardly advance.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "6000")

_HOMES = {
    "ElectraError": "electra.errors",
    "FinetuneConfig": "electra.config.finetune",
    "PretrainConfig": "electra.config.schema",
    "Pretrained": "electra.model.pretrained",
    "Tokenizer": "electra.data.tokens.tokenizer",
    "build_corpus": "electra.data.corpus.build",
    "build_objective": "electra.objectives.build",
    "evaluate": "electra.recipes.evaluate",
    "export": "electra.recipes.convert",
    "finetune": "electra.recipes.finetune",
    "flops": "electra.recipes.flops",
    "glue": "electra.recipes.glue",
    "import_model": "electra.recipes.convert",
    "load": "electra.model.pretrained",
    "load_config": "electra.config.load",
    "load_finetune_config": "electra.config.load",
    "load_tokenizer": "electra.data.tokens.tokenizer",
    "play": "electra.playground.play",
    "predict": "electra.recipes.evaluate",
    "pretrain": "electra.recipes.pretrain",
    "report": "electra.recipes.report.page",
    "train": "electra.recipes.train",
    "train_vocab": "electra.data.tokens.vocab",
}
__version__ = "0.1.0"
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'electra' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
