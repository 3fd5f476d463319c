#!/bin/sh
# The ten-minute record: from raw text to the best small model and its scores in 600 seconds on one H200.
# runs/record.sh VOCAB GLUE OUT TEXT...                 (SETTINGS="key=value ..." changes the pre-training)
#
# Rules.
# Hardware  one H200 and its CPU cores, used by nothing else. An MPS server may run, as it did for the current record
#           (nvidia-cuda-mps-control -d): six fine-tunings share the GPU.
# Data      any text except that of the tasks; VOCAB is an existing vocabulary, for instance BERT's.
# Model     at most as many parameters as the discriminator of ELECTRA-Small: 13.55 million with its head.
# Time      at most 600 seconds of wall-clock time for this script: reading the text, start-up, compilation, training,
#           fine-tuning and scoring. Caches may be warm from other runs.
# Score     mean of the dev scores of CoLA (Matthews), SST-2, MRPC, RTE, QNLI (accuracy) and STS-B (Spearman), which is
#           the line `mean` of the final table. Median of three fine-tuning seeds for small tasks, one for the others.
#           QNLI uses its train.tsv, or else train_reconstructed.tsv, 104,743 pairs rebuilt from SQuAD 1.1, as in all
#           records so far; the final table shows which.
# Seeds     a record is the median of three runs: SETTINGS="seed=0", 1, 2.
# To beat   73.2, results/2026-11-17-record-of-three. A new record updates this file and gets an entry in the ledger.
set -eu
began=$(date +%s)
limit=600
reserve=${RESERVE:-170} # seconds for start-up, fine-tuning and scoring
vocab=$1 glue=$2 out=$3
shift 3
[ -f "$glue/QNLI/train.tsv" ] && pairs=train.tsv || pairs=train_reconstructed.tsv
electra corpus "$@" --tokenizer "$vocab" --length 128 --out "$out/corpus"
hours=$(awk "BEGIN { print ($limit - $reserve - $(date +%s) + $began) / 3600 }")
electra pretrain quick objective.name=corrective data="$out/corpus" out="$out/run" train.hours="$hours" \
  evaluate.every=5000 evaluate.batches=4 checkpoint.every=100000 checkpoint.keep=1 log.every=500 ${SETTINGS:-}
electra glue "$out/run" --data "$glue" --out "$out/tuned" --together 6 \
  --task cola --task sst-2 --task mrpc --task sts-b --task rte --task qnli \
  cola.seeds=3 mrpc.seeds=3 sts-b.seeds=3 rte.seeds=3 qnli.train_file="$pairs" \
  cola.learning_rate=1e-4 mrpc.learning_rate=1e-4 rte.learning_rate=1e-4 ${TUNING:-}
seconds=$(($(date +%s) - began))
echo "$seconds seconds of $limit"
[ "$seconds" -le "$limit" ]
