#!/bin/sh
# The paper's ablations at an equal number of steps: objectives, generators, sharing, sizes, ways to train.
# runs/ablations.sh CORPUS GLUE OUT STEPS               (SETTINGS="key=value ..." for all trainings, SEEDS=3,
#                                                        TUNING="key=value ..." for all tasks, TOGETHER=4)
#
# Rules: preset quick, one change at a time, STEPS updates each on the same data in the same order (two-stage: STEPS in
# each of its stages, as in the paper). TOGETHER of them share the GPU, so their seconds tell nothing; steps, tokens and
# FLOPs do. Then STS-B, MRPC and CoLA with SEEDS seeds. A variant that fails is named at the end and stops no other; the
# same command again goes on.
set -u
corpus=$1 glue=$2 out=$3 steps=$4
mkdir -p "$out"
: >"$out/failed"

try() { # NAME key=value...
  name=$1
  shift
  electra pretrain quick data="$corpus" out="$out/$name" train.steps="$steps" evaluate.every=1000 evaluate.batches=8 \
    checkpoint.every=20000 checkpoint.keep=1 log.every=200 "$@" ${SETTINGS:-} &&
    electra glue "$out/$name" --data "$glue" --out "$out/$name-tuned" --task sts-b --task mrpc --task cola \
      seeds="${SEEDS:-3}" ${TUNING:-} ||
    echo "$name" >>"$out/failed"
}

started=0
variant() { # in the background; waits when as many as wanted are under way
  try "$@" &
  started=$((started + 1))
  [ $((started % ${TOGETHER:-4})) -ne 0 ] || wait
}

variant electra
variant bert objective.name=mlm
variant electra-15 objective.name=electra_15
variant replace-mlm objective.name=replace_mlm
variant all-tokens-mlm objective.name=all_tokens_mlm
variant electric objective.name=electric
variant uniform objective.generator.kind=uniform
variant unigram objective.generator.kind=unigram
variant sharing-none objective.generator.sharing=none
variant sharing-gdes objective.generator.sharing=gdes
variant sharing-all objective.generator.sharing=all objective.generator.width=1.0
variant width-1-8 objective.generator.width=0.125 # electra itself has a quarter
variant width-1-2 objective.generator.width=0.5
variant width-3-4 objective.generator.width=0.75
variant width-1 objective.generator.width=1.0
variant two-stage objective.algorithm=two_stage objective.generator.width=1.0 objective.generator.sharing=none
variant adversarial objective.algorithm=adversarial
wait
if [ -s "$out/failed" ]; then
  echo "failed: $(tr '\n' ' ' <"$out/failed")" >&2
  exit 1
fi
