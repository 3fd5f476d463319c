"""A joint step made of the modules of `transformers`: what `electra bench` compares with.

Shapes: B sequences, L tokens, N masked positions, V vocabulary.
"""

from abc import abstractmethod
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ModelConfig
from electra.config.objectives import ElectraObjective, MaskedLMGenerator
from electra.config.schema import PretrainConfig
from electra.errors import ElectraError
from electra.model.bodies import BODIES
from electra.model.heads import find_head
from electra.model.precision import autocast
from electra.objectives.masking import slots
from electra.recipes.speed import TOKENIZER

TABLES = {"word_embeddings", "position_embeddings", "tok_embeddings"}  # what both networks share
HEADS = {"electra": ("generator_predictions", "generator_lm_head"), "modern": ("head", "decoder")}


def comparable(objective: object) -> bool:
    """Return whether a step with this objective can be made of Hugging Face's modules."""
    return isinstance(objective, ElectraObjective) and isinstance(objective.generator, MaskedLMGenerator)


class Glue(nn.Module):
    """A generator and a discriminator of `transformers` that share embeddings; maps ids (B, L) to the joint loss."""

    def __init__(self, config: PretrainConfig, mask_id: int) -> None:
        super().__init__()
        objective = config.objective
        assert isinstance(objective, ElectraObjective)
        assert isinstance(objective.generator, MaskedLMGenerator)
        self.objective, self.mask_id = objective, mask_id
        self.generator, self.discriminator = _networks(objective.generator.model(config.model), config.model)
        self.predict = nn.Sequential(*(getattr(self.generator, name) for name in HEADS[config.model.body]))

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """Return the joint loss of a batch."""

    def joint_loss(self, generator_loss: Tensor, scores: Tensor, replaced: Tensor) -> Tensor:
        """Add the discriminator's loss of (B, L) or (B, L, 1) scores to the generator's, both weighted."""
        discriminator_loss = F.binary_cross_entropy_with_logits(scores.float().view(replaced.shape), replaced.float())
        objective = self.objective
        return objective.generator_weight * generator_loss + objective.discriminator_weight * discriminator_loss


class TypicalGlue(Glue):
    """As in public reimplementations: logits at every position, boolean indexing, Gumbel noise for sampling."""

    def forward(self, ids: Tensor) -> Tensor:
        chosen = torch.rand(ids.shape, device=ids.device) < self.objective.mask_fraction
        attention = torch.ones_like(ids)
        logits = self.generator(ids.masked_fill(chosen, self.mask_id), attention_mask=attention).logits  # (B, L, V)
        at_masked, originals = logits[chosen].float(), ids[chosen]
        generator_loss = F.cross_entropy(at_masked, originals)
        with torch.no_grad():
            gumbel = -(-torch.rand_like(at_masked).log()).log()
            proposed = (at_masked + gumbel).argmax(-1)
            corrupted = ids.clone()
            corrupted[chosen] = proposed
        scores = self.discriminator(corrupted, attention_mask=attention).logits
        return self.joint_loss(generator_loss, scores, corrupted != ids)


class CarefulGlue(Glue):
    """The same modules used carefully: logits only at the masked positions, static shapes, no waiting for the host."""

    def forward(self, ids: Tensor) -> Tensor:
        count = slots(self.objective.mask_fraction, ids.size(1))
        positions = torch.rand(ids.shape, device=ids.device).topk(count, dim=1).indices  # (B, N)
        hidden = self.generator.base_model(ids.scatter(1, positions, self.mask_id)).last_hidden_state
        at_masked = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.size(-1)))
        logits = self.predict(at_masked).float()  # (B, N, V)
        generator_loss = F.cross_entropy(logits.flatten(0, 1), ids.gather(1, positions).flatten())
        with torch.no_grad():
            proposed = (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)
            corrupted = ids.scatter(1, positions, proposed)
        scores = self.discriminator(corrupted).logits
        return self.joint_loss(generator_loss, scores, corrupted != ids)


class HuggingFaceStep:
    """One update: autocast as ours, PyTorch's AdamW, clipping."""

    def __init__(self, glue: Glue, config: PretrainConfig, device: torch.device, compiled: bool) -> None:
        self.config, self.device = config.train, device
        self.glue = glue.to(device).train()
        if compiled:
            self.glue.compile()
        self.optimizer = torch.optim.AdamW(
            self.glue.parameters(), lr=self.config.learning_rate, weight_decay=self.config.weight_decay
        )

    def __call__(self, ids: Tensor) -> None:
        """Update the weights with a batch of ids (B, L)."""
        with autocast(self.config, self.device):
            loss = self.glue(ids)
        loss.backward()
        nn.utils.clip_grad_norm_(self.glue.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def import_transformers() -> Any:
    """Import `transformers`, or raise an error that says how to install it."""
    try:
        return import_module("transformers")
    except ImportError:
        raise ElectraError("--against hf needs transformers: pip install transformers, or use --against none") from None


def _networks(generator: ModelConfig, discriminator: ModelConfig) -> tuple[Any, Any]:
    """Build both networks and tie the embeddings that they can share."""
    transformers, body = import_transformers(), BODIES[discriminator.body]
    describe: Any = getattr(transformers, f"{body.family}Config")
    small = getattr(transformers, f"{body.family}ForMaskedLM")(describe(**_described(generator)))
    detector = find_head(f"{body.family}ForPreTraining").stored_as
    full = getattr(transformers, detector)(describe(**_described(discriminator), num_labels=1))
    tables, shared = small.base_model.embeddings, full.base_model.embeddings
    for name in TABLES & dict(tables.named_children()).keys():
        if getattr(tables, name).weight.shape == getattr(shared, name).weight.shape:
            setattr(tables, name, getattr(shared, name))
    small.get_output_embeddings().weight = small.get_input_embeddings().weight
    return small, full


def _described(shape: ModelConfig) -> dict[str, Any]:
    body = BODIES[shape.body]
    return {**body.describe(shape), **dict.fromkeys(body.special_ids, TOKENIZER.pad_id)}
