#!/bin/sh
# The paper's claim: ELECTRA against BERT with the same body, text, training time and effort in choosing rates.
# runs/claim.sh electra|bert BUDGET SEED VOCAB TASKS OUT TEXT...   (SETTINGS="key=value ..." changes the pre-training,
#                                                                   TUNING the fine-tuning; PART=480 stops pre-training
#                                                                   after so many seconds)
#
# A call trains one model and scores it. It can be stopped at any time; the same call continues it. All calls are
# independent of each other, so they may run on several machines:
#   runs/claim.sh MODEL search 0 ...      both models: the three rates of pre-training; enter the best one below
#   runs/claim.sh MODEL 5 SEED ...        both models, seeds 0, 1, 2: five minutes of training
#   runs/claim.sh MODEL 20 SEED ...       both models, seeds 0, 1, 2: twenty minutes
#   runs/claim.sh electra 0 0 ...         the same body with random weights
#   python runs/ledger.py claim --headline --model ELECTRA OUT/electra-5-*/* --model ELECTRA OUT/electra-20-*/* \
#     --model BERT OUT/bert-5-*/* --model BERT OUT/bert-20-*/* --model untrained - OUT/electra-0-0/tuned
# The ledger needs config.toml and metrics.jsonl of each run, and every results.json of its fine-tuning.
#
# Rules.
# Hardware  one H200, used by nothing else during pre-training. The minutes are those of the training loop.
# Data      any text except that of the tasks, the same for both; VOCAB and TASKS as for runs/record.sh.
# Models    the preset quick. ELECTRA has its objective (detection and correction), BERT masked language modeling;
#           body, batches, optimizer, schedule and start of the embeddings are the same.
# Rates     of pre-training: for each model the best of three, by the mean of CoLA, MRPC, STS-B and RTE after 3,000
#           updates. Of fine-tuning: for each model, budget and task the best of three, by the median over all seeds.
#           Both choices are made on the dev sets.
# Score     dev scores as in runs/record.sh, with SQuAD 1.1 and CoNLL-2000: three fine-tuning seeds for small tasks,
#           one for the others; median and 95 % interval over the fine-tuning seeds of all pre-training seeds.
set -eu
model=$1 budget=$2 seed=$3 vocab=$4 tasks=$5 out=$6
shift 6
case $model in # learning rates: the preset's, until a search has found better ones
electra) settings="train.learning_rate=4e-3" ;;
bert) settings="objective.name=mlm train.learning_rate=4e-3" ;;
*)
  echo "claim.sh: the first argument is electra or bert, not $model" >&2
  exit 2
  ;;
esac
[ -f "$tasks/glue/QNLI/train.tsv" ] && pairs=train.tsv || pairs=train_reconstructed.tsv
small="--task cola --task mrpc --task sts-b --task rte cola.seeds=3 mrpc.seeds=3 sts-b.seeds=3 rte.seeds=3"
large="--task sst-2 --task qnli --task squad-1.1 --task chunking qnli.train_file=$pairs"

score() { # NAME PRETRAINING FINETUNING: pre-train a model, fine-tune it and print its scores
  ${PART:+timeout --signal=TERM "$PART"} electra pretrain quick data="$out/corpus" out="$out/$1/run" seed="$seed" \
    evaluate.every=5000 evaluate.batches=4 checkpoint.every=5000 checkpoint.keep=1 log.every=500 \
    $settings $2 ${SETTINGS:-}
  electra glue "$out/$1/run" --data "$tasks/glue" --data "$tasks/squad-1.1" --data "$tasks/conll2000" \
    --out "$out/$1/tuned" --together 8 $small $3 "learning_rates=[1e-4, 3e-4, 1e-3]" ${TUNING:-}
}

electra corpus "$@" --tokenizer "$vocab" --length 128 --out "$out/corpus"
case $budget in
search)
  for rate in 2e-3 4e-3 8e-3; do
    score "$model-search-$rate" "train.steps=3000 train.learning_rate=$rate" ""
  done
  ;;
0) score "$model-0-$seed" train.steps=1 "$large start=untrained" ;;
*) score "$model-$budget-$seed" "train.hours=$(awk "BEGIN { print $budget / 60 }")" "$large" ;;
esac
