#!/bin/sh
# The paper's claim: ELECTRA against BERT with the same body, text, training time and effort in choosing rates.
# runs/claim.sh electra|bert BUDGET SEED VOCAB TASKS OUT TEXT...   (SETTINGS="key=value ..." changes the pre-training,
#                                                                   TUNING the fine-tuning; PART=480 stops pre-training
#                                                                   after so many seconds, ONLY=pretrain at its end)
#
# A call trains one model for BUDGET minutes and scores it. It can be stopped at any time, and the same call continues
# it, on another machine after copying OUT, or only OUT/NAME.call and OUT/NAME of its model; for scoring, run/model is
# enough of OUT/NAME/run. Training needs TEXT under the same name. A machine that disappears costs at most 5,000
# updates, a minute, and the fine-tuning seeds in progress, if OUT survives.
# Seed 0 is measured by the clock, with nothing else on the GPU, and leaves two files to the other seeds: in
# OUT/MODEL-BUDGET.updates how many updates it had time for, and, once it is scored, in OUT/MODEL-BUDGET.rates its
# learning rates of fine-tuning. They train for as many updates, so they may share a GPU with each other and with
# scoring, with an MPS server; so may the calls of a search. ONLY=pretrain leaves the scoring to a later call, the same
# without it. Calls may run on several machines, with a copy of the two files.
#   runs/claim.sh MODEL search 0 ...      both models: the three rates of pre-training, or those in RATES. Done, see
#                                         results/2026-11-19-claim-rates; the best ones are entered below
#   runs/claim.sh MODEL 5 SEED ...        both models, seeds 0, 1, 2: five minutes of training. Missing: ELECTRA's seed 2
#                                         and BERT's 1 and 2; seed 0 has left results/2026-11-19-claim-five-minutes/*-5.*
#   runs/claim.sh electra 0 0 ...         the same body with random weights
#   python runs/ledger.py 2026-11-19-claim-five-minutes --model "ELECTRA, quick" OUT/electra-5-2/* \
#     --model "BERT, quick" OUT/bert-5-[12]/*
# For twenty minutes quick seems to be too small: after eight it has hardly gained anything. There the claim is
# runs/record.sh 20, whose body is larger: for ELECTRA as it is, for BERT with SETTINGS="seed=SEED objective.name=mlm",
# seeds 0, 1 and 2.
# The ledger needs config.toml and metrics.jsonl of each run, and every results.json in OUT/NAME/tuned.
#
# Rules.
# Hardware  one H200, used by nothing else while seed 0 trains. The minutes are those of its training loop; the other
#           seeds train for as many updates.
# Data      text as for runs/record.sh, the same for both; VOCAB and TASKS likewise.
# Models    the preset quick. ELECTRA has its objective (detection and correction), BERT masked language modeling;
#           body, batches, optimizer, schedule, weight decay and start of the embeddings are the same, and were chosen
#           for ELECTRA.
# Rates     of pre-training: for each model the best of three, by the mean of CoLA, MRPC, STS-B and RTE after 3,000
#           updates; while the best is the lowest or highest, the next beyond it is tried too (RATES="1e-3", or
#           "16e-3"). ELECTRA's three are level: it keeps the preset's, and none beyond was tried. Of fine-tuning:
#           for each model, budget and task the best of 1e-4, 3e-4 and, for small tasks, 1e-3 for the model of seed 0,
#           by the median of its fine-tuning seeds; the models of the other seeds are fine-tuned with that. Both
#           choices are made on the dev sets.
# Score     dev scores as in runs/record.sh, with SQuAD 1.1 and CoNLL-2000: three fine-tuning seeds for small tasks,
#           one for the others; median over all of them, 95 % interval over the means of the pre-training seeds.
set -eu
trap 'exit 143' INT TERM HUP # once the command has saved its work
refuse() {
  echo "claim.sh: $1" >&2
  exit 2
}
[ $# -ge 7 ] || refuse "usage: runs/claim.sh electra|bert BUDGET SEED VOCAB TASKS OUT TEXT..."
model=$1 budget=$2 seed=$3 vocab=$4 tasks=$5 out=$6
shift 6
case $model in # with the learning rates that the search has found
electra) objective="" best=4e-3 ;;
bert) objective="objective.name=mlm" best=4e-3 ;;
*) refuse "the first argument is electra or bert, not $model" ;;
esac
case $budget in
search) ;;
*[!0-9]* | "") refuse "the second argument is search or a whole number of minutes, not $budget" ;;
esac
case ${ONLY:-} in "" | pretrain) ;; *) refuse "ONLY is pretrain or not set, not $ONLY" ;; esac
case $seed in *[!0-9]* | "") refuse "the third argument is a seed, a whole number, not $seed" ;; esac
for folder in glue squad-1.1 conll2000; do
  [ -d "$tasks/$folder" ] || refuse "no folder $tasks/$folder"
done
[ -f "$tasks/glue/QNLI/train.tsv" ] && pairs=train.tsv || pairs=train_reconstructed.tsv
small="--task cola --task mrpc --task sts-b --task rte cola.seeds=3 mrpc.seeds=3 sts-b.seeds=3 rte.seeds=3"
large="--task sst-2 --task qnli --task squad-1.1 --task chunking qnli.train_file=$pairs"

tune() { # MODEL OPTION...: fine-tune it on the tasks of the call
  electra glue "$@" --data "$tasks/glue" --data "$tasks/squad-1.1" --data "$tasks/conll2000" \
    --out "$out/$name/tuned" --together 8 $small $finetuning ${TUNING:-}
}

minutes() { # what ends pre-training: the clock for seed 0, its number of updates for the others
  case $seed in
  0) echo "train.hours=$(awk "BEGIN { print $budget / 60 }")" ;;
  *) of_seed_0 updates ;;
  esac
}

rates() { # the learning rates of fine-tuning: with seed 0 those to try, with another seed the best of them
  case $budget-$seed in
  search-*) echo "learning_rates=[1e-4,3e-4,1e-3]" ;;
  *-0)
    echo "learning_rates=[1e-4,3e-4,1e-3]"
    for task in sst-2 qnli squad-1.1 chunking; do echo "$task.learning_rates=[1e-4,3e-4]"; done
    ;;
  *) of_seed_0 rates ;;
  esac
}

of_seed_0() { # updates|rates: the settings that seed 0 has left to the others
  cat "$out/$model-$budget.$1" 2>/dev/null || refuse "no $out/$model-$budget.$1: call it with seed 0 first"
}

leave() { # after seed 0: write the settings for the others
  if [ -s "$out/$name/run/metrics.jsonl" ]; then # not where it was only scored
    sed -n 's/.*"step": \([0-9]*\).*/train.steps=\1/p' "$out/$name/run/metrics.jsonl" | tail -n 1 \
      >"$out/$model-$budget.updates"
  fi
  [ "${ONLY:-}" != pretrain ] && [ -d "$out/$name/tuned" ] || return 0
  for results in "$out/$name"/tuned/*/results.json; do
    task=$(basename "$(dirname "$results")")
    sed -n "/\"learning_rate\"/{s/.*: \([^,]*\).*/$task.learning_rate=\1/p;q;}" "$results"
  done >"$out/$model-$budget.rates"
}

score() { # NAME RATE PRETRAINING FINETUNING TEXT...: pre-train a model, fine-tune it and print its scores
  name=$1 pretraining="$objective train.learning_rate=$2 $3" finetuning=$4
  shift 4
  call="$vocab $* SETTINGS=seed=$seed $pretraining ${SETTINGS:-} TUNING=${TUNING:-}"
  mkdir -p "$out"
  [ -d "$out/$name/run" ] && [ -s "$out/$name.call" ] || echo "$call" >"$out/$name.call"
  [ "$call" = "$(cat "$out/$name.call")" ] ||
    refuse "$out/$name was started as $(cat "$out/$name.call"); call it like that, or with another OUT"
  if [ ! -d "$out/$name/run/model" ]; then # written at the end
    tune embedded --dry-run >/dev/null # what cannot be fine-tuned is found now and not after training
    electra corpus "$@" --tokenizer "$vocab" --length 128 --out "$out/corpus"
    ${PART:+timeout --foreground --signal=TERM "$PART"} electra pretrain quick data="$out/corpus" \
      out="$out/$name/run" seed="$seed" evaluate.every=5000 evaluate.batches=4 checkpoint.every=5000 \
      checkpoint.keep=1 log.every=500 $pretraining ${SETTINGS:-}
  fi
  [ "${ONLY:-}" != pretrain ] || return 0
  chosen=$(rates)
  tune "$out/$name/run" $chosen
}

case $budget in
search)
  for rate in ${RATES:-2e-3 4e-3 8e-3}; do
    score "$model-search-$rate" "$rate" train.steps=3000 "" "$@"
  done
  ;;
0) score "$model-0-$seed" "$best" train.steps=1 "$large start=untrained" "$@" ;;
*)
  ending=$(minutes)
  score "$model-$budget-$seed" "$best" "$ending" "$large" "$@"
  ;;
esac
case $budget-$seed in search-*) ;; *-0) leave ;; esac
