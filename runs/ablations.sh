#!/bin/sh
# The paper's ablations at an equal number of steps: objectives, generators, sharing, sizes, training algorithms.
# runs/ablations.sh CORPUS GLUE OUT STEPS [NAME key=value ...]  (with NAME only this variant, otherwise all those below;
#   SETTINGS="key=value ..." for pre-training, TUNING="key=value ..." for fine-tuning, SEEDS=3, TOGETHER=4)
#
# Rules: preset small-muon, one change at a time, STEPS updates on the same data in the same order (two-stage: STEPS in
# each stage as in the paper, with a full-width generator and no shared weights). A variant's own settings override
# SETTINGS. TOGETHER variants share the GPU, so compare steps, tokens and FLOPs, not seconds; NVIDIA's MPS lets them run
# concurrently. Then STS-B, MRPC and CoLA with SEEDS seeds. A failing variant does not stop the others and is named at
# the end; the same command again resumes.
set -u
corpus=$1 glue=$2 out=$3 steps=$4
shift 4

variants() { # the slowest first
  cat <<END
two-stage objective.algorithm=two_stage objective.generator.width=1.0 objective.generator.sharing=none
all-tokens-mlm objective.name=all_tokens_mlm
width-1 objective.generator.width=1.0
adversarial objective.algorithm=adversarial
electra
uniform objective.generator.kind=uniform
electra-15 objective.name=electra_15
bert objective.name=mlm
replace-mlm objective.name=replace_mlm
corrective objective.name=corrective
electric objective.name=electric
sharing-none objective.generator.sharing=none
sharing-gdes objective.generator.sharing=gdes
width-1-8 objective.generator.width=0.125
width-1-2 objective.generator.width=0.5
width-3-4 objective.generator.width=0.75
sharing-all objective.generator.sharing=all objective.generator.width=1.0
unigram objective.generator.kind=unigram
END
}

if [ $# -eq 0 ]; then
  mkdir -p "$out"
  : >"$out/failed"
  variants | xargs -P "${TOGETHER:-4}" -L 1 sh "$0" "$corpus" "$glue" "$out" "$steps"
  [ ! -s "$out/failed" ] || { echo "failed: $(tr '\n' ' ' <"$out/failed")" >&2 && exit 1; }
else
  name=$1
  shift
  electra pretrain small-muon data="$corpus" out="$out/$name" train.steps="$steps" \
    evaluate.every=1000 evaluate.batches=8 checkpoint.every=20000 checkpoint.keep=1 log.every=200 ${SETTINGS:-} "$@" &&
    electra glue "$out/$name" --data "$glue" --out "$out/$name-tuned" --task sts-b --task mrpc --task cola \
      seeds="${SEEDS:-3}" ${TUNING:-} ||
    echo "$name" >>"$out/failed"
fi
