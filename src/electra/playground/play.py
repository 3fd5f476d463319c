"""Serve the page of a model, on this machine only."""

import os
import socket
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from electra.data.reading.hub import EMBEDDED
from electra.errors import CheckpointError, ConfigError
from electra.model.networks import Discriminator, TaskNetwork
from electra.model.pretrained import Pretrained, load
from electra.playground import PORT
from electra.recipes.evaluate import Tuned, load_tuned

HOST = "127.0.0.1"


def play(
    model: str | Path = EMBEDDED,
    port: int = PORT,
    browser: bool = True,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a page to try out a model until interrupted; `ready` is called with its address."""
    if find_spec("gradio") is None:
        raise ConfigError("the page needs gradio; install it with: pip install '.[play]' in the checkout")
    _check_port(port)
    playable = load_playable(model)
    # Before gradio is imported: it sends usage statistics unless told otherwise.
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1"}
    from electra.playground.page import build_page, launch

    page = build_page(playable, "the model shipped with electra" if model == EMBEDDED else str(model))
    launch(page, HOST, port, browser)
    ready(f"http://{HOST}:{port}")
    try:
        Event().wait()
    except KeyboardInterrupt:
        page.close(verbose=False)


def load_playable(source: str | Path) -> Pretrained | Tuned:
    """Load a discriminator, with its generator if there is one, or a fine-tuned model with its task."""
    model = load(source)
    if isinstance(model.network, TaskNetwork):
        return load_tuned(source)
    if not isinstance(model.network, Discriminator):
        raise CheckpointError(f"{source} has neither a discriminator nor a task head; choose another model")
    return model


def _check_port(port: int) -> None:
    """Raise an error if the port is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port just released is free
        try:
            probe.bind((HOST, port))
        except OSError:
            raise ConfigError(f"port {port} is in use; choose another with --port, such as {port + 1}") from None
