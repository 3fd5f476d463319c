#!/bin/sh
# Pre-train on several machines of a Slurm cluster; submit the same command again to resume.
# sbatch --nodes 4 --gpus-per-node 8 runs/slurm.sh PRESET data=CORPUS out=RUN [key=value ...]
#
# Rules: CORPUS and RUN are on storage that all machines see. Slurm starts one torchrun per machine, and torchrun one
# process per GPU. If a process or a machine dies, torchrun starts all processes again from the newest checkpoint, up to
# RESTARTS times, on at least LEAST machines (default: all). train.batch_size is that of all processes together, so that
# a run may continue on fewer or more. Two minutes before the time limit Slurm sends SIGTERM: the run saves a checkpoint
# and stops, for which torchrun gives it 30 seconds.
#SBATCH --job-name=electra
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --no-kill
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -eu
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # otherwise a restart on other machines finds addresses of the last attempt
all=$SLURM_JOB_NUM_NODES
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
exec srun --kill-on-bad-exit=0 torchrun --nnodes "${LEAST:-$all}:$all" --nproc-per-node "${SLURM_GPUS_ON_NODE:-gpu}" \
  --rdzv-backend c10d --rdzv-endpoint "$first:${PORT:-29500}" --rdzv-id "$SLURM_JOB_ID" \
  --max-restarts "${RESTARTS:-3}" -m electra pretrain "$@"
