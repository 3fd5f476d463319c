"""Pre-train on a Ray cluster: Ray Train starts the processes, and each calls what `electra pretrain` calls.

python runs/ray_train.py PROCESSES PRESET data=CORPUS out=RUN [key=value ...] [--address ADDRESS] [--failures 3]

Needs `pip install 'ray[train]'` on all machines, which share the storage of CORPUS and RUN. After a failure, the
processes are started again and resume from the newest checkpoint.
"""

import argparse
import os
import socket

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig, get_context
from ray.train.backend import Backend
from ray.train.collective import broadcast_from_rank_zero
from ray.train.torch import TorchConfig, TorchTrainer

from electra.config.load import load_config
from electra.recipes.pretrain import check, pretrain


def work(config: dict[str, list[str]]) -> None:
    """Pre-train as one of the processes, with torchrun's variables."""
    context = get_context()
    meeting = broadcast_from_rank_zero(_free_address())
    ranks = {
        "RANK": context.get_world_rank(),
        "WORLD_SIZE": context.get_world_size(),
        "LOCAL_RANK": context.get_local_rank(),
        "LOCAL_WORLD_SIZE": context.get_local_world_size(),
    }
    os.environ.update({name: str(value) for name, value in {**ranks, **meeting}.items()})
    preset, *overrides = config["arguments"]
    pretrain(load_config(preset, overrides), [])


def _free_address() -> dict[str, str]:
    with socket.socket() as free:
        free.bind(("", 0))
        host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return {"MASTER_ADDR": host, "MASTER_PORT": str(free.getsockname()[1])}


class _AllDevices(Backend):
    """Lets every process see all GPUs of its machine; LOCAL_RANK chooses one, as with torchrun."""

    share_cuda_visible_devices = True


class _Processes(TorchConfig):
    """Processes that form their group themselves."""

    @property
    def backend_cls(self) -> type[Backend]:
        return _AllDevices


def main() -> None:
    """Start the processes and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("processes", type=int)
    parser.add_argument("arguments", nargs="+")
    parser.add_argument("--address", default="auto", help="of the cluster; local: start one on this machine")
    parser.add_argument("--failures", type=int, default=3, help="restarts before giving up")
    asked = parser.parse_args()
    preset, *overrides = asked.arguments
    config = check(load_config(preset, overrides))  # refuses what it can before anything starts
    ray.init(asked.address)
    TorchTrainer(
        work,
        train_loop_config={"arguments": asked.arguments},
        torch_config=_Processes(),
        scaling_config=ScalingConfig(num_workers=asked.processes, use_gpu=config.device in ("auto", "cuda")),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=asked.failures)),
    ).fit()


if __name__ == "__main__":
    main()
