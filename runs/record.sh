#!/bin/sh
# Two leaderboards: from raw text to an encoder and its scores within 10 or 20 minutes on one H200.
# runs/record.sh 10|20 VOCAB TASKS OUT TEXT...          (SETTINGS="key=value ..." changes the pre-training, TUNING the
#                                                        fine-tuning; PART=540 stops pre-training after so many seconds)
#
# Rules.
# Hardware  one H200 and its CPU cores, used by nothing else. An MPS server may run, as it did for the current record
#           (nvidia-cuda-mps-control -d): fine-tunings share the GPU.
# Data      any text without the tasks' labels; Wikipedia contains paragraphs of SQuAD, and so sentences of QNLI, as in
#           the paper's corpus. VOCAB is an existing vocabulary, for instance BERT's. TASKS has the folders glue,
#           squad-1.1, conll2000 and blimp.
# Model     10 minutes: at most as many parameters as the discriminator of ELECTRA-Small: 13.55 million with its head.
#           20 minutes: any size.
# Time      at most 600 or 1,200 seconds of wall-clock time until the mean is printed: reading the text, start-up,
#           compilation, training, fine-tuning and scoring; checking the settings beforehand does not count.
#           Caches may be warm from other runs. A record may take several calls of this script: each continues the
#           last one, on another machine after copying OUT, and their seconds are added up, those of stopped calls
#           too. Only a stop (Ctrl-C, TERM, PART) writes a checkpoint: after a kill, pre-training begins again.
# Score     mean of the dev scores of CoLA (Matthews), SST-2, MRPC, RTE, QNLI (accuracy) and STS-B (Spearman), which is
#           the line `mean` of the table. Median of three fine-tuning seeds for small tasks, one for the others.
#           QNLI uses its train.tsv, or else train_reconstructed.tsv, 104,743 pairs rebuilt from SQuAD 1.1, as in all
#           records so far; the table shows which. BLiMP, SQuAD 1.1 and CoNLL-2000 are printed afterwards: their time
#           does not count, nor do their scores.
# Seeds     a record is the median of three runs: SETTINGS="seed=0", 1, 2. For 20 minutes a single run may be entered,
#           marked as such, until the others are in.
# To beat   10 minutes: 77.0, results/2026-11-18-ten-minute-record. 20 minutes: 80.1, a single run,
#           results/2026-11-19-twenty-minutes-record. A new record updates this file and gets an entry in the ledger.
set -eu
trap 'exit 143' INT TERM HUP # once the command has saved its work
refuse() {
  echo "record.sh: $1" >&2
  exit 2
}
[ $# -ge 5 ] || refuse "usage: runs/record.sh 10|20 VOCAB TASKS OUT TEXT..."
minutes=$1 vocab=$2 tasks=$3 out=$4
shift 4
case $minutes in
10) recipe=quick finetuning="" reserve=${RESERVE:-90} ;;
20)
  recipe="modern-19x512 objective.name=corrective"
  finetuning="cola.smoothness=1 sst-2.smoothness=1"
  reserve=${RESERVE:-195}
  ;;
*) refuse "the first argument is 10 or 20, not $minutes" ;;
esac
[ "$reserve" -lt $((minutes * 60)) ] || refuse "RESERVE=$reserve leaves nothing of $minutes minutes"
for folder in glue squad-1.1 conll2000 blimp; do
  [ -d "$tasks/$folder" ] || refuse "no folder $tasks/$folder"
done
[ -f "$tasks/glue/QNLI/train.tsv" ] && pairs=train.tsv || pairs=train_reconstructed.tsv
mkdir -p "$out"
call="$minutes $vocab $* RESERVE=$reserve SETTINGS=${SETTINGS:-} TUNING=${TUNING:-}"
[ -d "$out/run" ] && [ -s "$out/call" ] || echo "$call" >"$out/call"
[ "$call" = "$(cat "$out/call")" ] ||
  refuse "$out was started as $(cat "$out/call"); call it like that, or with another OUT"

tune() { # MODEL OPTION...: fine-tune it on the six tasks
  electra glue "$@" --data "$tasks/glue" --out "$out/tuned" --together 14 \
    --task cola --task sst-2 --task mrpc --task sts-b --task rte --task qnli \
    cola.seeds=3 mrpc.seeds=3 sts-b.seeds=3 rte.seeds=3 qnli.train_file="$pairs" $finetuning ${TUNING:-}
}

[ -d "$out/run" ] || tune embedded --dry-run >/dev/null # what cannot be fine-tuned is found now and not after training
began=$(date +%s) before=$(cat "$out/seconds" 2>/dev/null || echo 0)
count() { # FILE: write the seconds so far, with a file that only this process writes
  echo $(($(date +%s) - began + before)) >"$out/$1" && mv "$out/$1" "$out/seconds"
}

if [ ! -f "$out/scored" ]; then
  ( # a clock, in case that this script is killed
    trap '' INT TERM HUP
    while [ -e /proc/$$/exe ] && [ ! -f "$out/scored" ]; do
      count clock || true
      sleep 1
    done
  ) >/dev/null 2>&1 &
  trap 'count end' EXIT
  electra corpus "$@" --tokenizer "$vocab" --length 128 --out "$out/corpus"
  spent=$(($(date +%s) - began + before))
  [ -d "$out/run" ] || awk "BEGIN { print ($minutes * 60 - $reserve - $spent) / 3600 }" >"$out/hours"
  ${PART:+timeout --foreground --signal=TERM "$PART"} electra pretrain $recipe data="$out/corpus" out="$out/run" \
    train.hours="$(cat "$out/hours")" evaluate.every=5000 evaluate.batches=4 checkpoint.every=100000 checkpoint.keep=1 \
    log.every=500 ${SETTINGS:-}
  tune "$out/run"
  trap - EXIT
  count end
  touch "$out/scored"
fi
spent=$(cat "$out/seconds")
echo "$spent seconds of $((minutes * 60))"
electra evaluate "$out/run" task=blimp data="$tasks/blimp"
electra glue "$out/run" --data "$tasks/squad-1.1" --data "$tasks/conll2000" --out "$out/more" --together 2 \
  --task squad-1.1 --task chunking ${TUNING:-}
[ "$spent" -le $((minutes * 60)) ]
