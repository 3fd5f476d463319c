"""The encoder bodies, one file each; this table is the only list of them."""

from electra.config.bodies import ModelConfig
from electra.model.bodies.electra import ElectraBody
from electra.model.bodies.modern import ModernBody
from electra.model.body import Body, Direction, Embeddings

BODIES: dict[str, type[Body]] = {"electra": ElectraBody, "modern": ModernBody}  # by the tag of their config section


def build_body(config: ModelConfig, embeddings: Embeddings | None = None, direction: Direction = "both") -> Body:
    """Build the encoder that a config describes, on embeddings that another network may hold too."""
    return BODIES[config.body](config, embeddings, direction)
