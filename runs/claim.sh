#!/bin/sh
# The paper's claim: ELECTRA against BERT, the same encoder, data and wall clock, then the same fine-tuning.
# runs/claim.sh CORPUS GLUE SQUAD CONLL OUT HOURS   (HOURS for each; PRESET=small; SETTINGS="key=value ..." for both
#                                                    trainings, TUNING="key=value ..." for all tasks)
#
# Rules: one GPU that does nothing else while a model is pre-trained. One preset for both: quick, or with PRESET=small
# and a corpus of `electra corpus --cut paper` the paper's own settings. BERT has the same encoder, batches, lengths,
# optimizer, rate and schedule (quick at twice the rate collapsed in fine-tuning: results/2026-11-16-claim). Five seeds
# for the tasks with few examples (CoLA, MRPC, STS-B, RTE), one for the others, at the rates of the paper and of its
# code; the better median counts, for both models alike. Several HOURS, each with an OUT, entered into the ledger at
# once, make the curve of score against FLOPs and minutes. QNLI trains on its train.tsv; without one on
# train_reconstructed.tsv, 104,743 pairs that were rebuilt from SQuAD 1.1, as in the ledger so far.
set -eu
corpus=$1 glue=$2 squad=$3 conll=$4 out=$5 hours=$6 preset=${PRESET:-quick}
[ -f "$glue/QNLI/train.tsv" ] && pairs=train.tsv || pairs=train_reconstructed.tsv
settings="data=$corpus train.hours=$hours evaluate.every=2000 evaluate.batches=8 checkpoint.every=20000
  checkpoint.keep=1 log.every=200 ${SETTINGS:-}"

tune() { # small tasks wait for the host, not for the GPU: several share it
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
