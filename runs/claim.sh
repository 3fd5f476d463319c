#!/bin/sh
# The paper's claim: ELECTRA against BERT with the same encoder, data, training time and fine-tuning.
# runs/claim.sh CORPUS GLUE SQUAD CONLL OUT HOURS   (HOURS per model; PRESET=small; SETTINGS="key=value ..." for
#                                                    pre-training, TUNING="key=value ..." for fine-tuning)
#
# Rules: one GPU, which runs nothing else during pre-training. Both models use the same preset: quick, or the paper's
# settings with PRESET=small and a corpus of `electra corpus --cut paper`. Encoder, batches, lengths, optimizer, rate
# and schedule are the same (BERT with quick at twice the rate collapsed in fine-tuning: results/2026-11-16-claim). Five
# seeds for small tasks (CoLA, MRPC, STS-B, RTE), one for the others, at the learning rates of the paper and of its
# code; for each model the better median counts. To plot score against FLOPs and minutes, run several HOURS, each with
# its own OUT, and enter them into the ledger together. QNLI uses its train.tsv, or else train_reconstructed.tsv:
# 104,743 pairs rebuilt from SQuAD 1.1, as in the ledger so far.
set -eu
corpus=$1 glue=$2 squad=$3 conll=$4 out=$5 hours=$6 preset=${PRESET:-quick}
[ -f "$glue/QNLI/train.tsv" ] && pairs=train.tsv || pairs=train_reconstructed.tsv
settings="data=$corpus train.hours=$hours evaluate.every=2000 evaluate.batches=8 checkpoint.every=20000
  checkpoint.keep=1 log.every=200 ${SETTINGS:-}"

tune() { # small tasks are limited by the CPU, so several share the GPU
  electra glue "$out/$1" --data "$glue" --data "$squad" --data "$conll" --out "$out/$1-tuned" --together 4 \
    --task cola --task sst-2 --task mrpc --task sts-b --task rte --task qnli --task squad-1.1 --task chunking \
    cola.seeds=5 mrpc.seeds=5 sts-b.seeds=5 rte.seeds=5 qnli.train_file="$pairs" \
    "learning_rates=[3e-4, 1e-4]" ${TUNING:-}
}

electra pretrain "$preset" out="$out/electra" $settings
electra pretrain "$preset" out="$out/bert" objective.name=mlm $settings
tune electra
tune bert
echo "python runs/ledger.py claim --headline --model ELECTRA $out/electra $out/electra-tuned" \
  "--model BERT $out/bert $out/bert-tuned"
