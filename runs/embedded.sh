#!/bin/sh
# Train the model that is shipped with the package (src/electra/embedded) from text.
# runs/embedded.sh OUT HOURS TEXT...                    (SETTINGS="key=value ..." changes the training)
#
# Rules: at most 8,000,000 bytes with the tokenizer and the generator, to keep the package small. Therefore weights are
# stored in bf16 and embeddings are 64 wide (with 96 it would be 8.8 MB). English, uncased; the preset small-muon with
# three layers and its former AdamW learning rates. Eight layers of half the width against a stronger generator learned
# too little (results/2026-11-15-embedded-first-try). The shipped model was trained for 0.06 hours on an H200
# (results/2026-11-15-embedded).
set -eu
out=$1 hours=$2
shift 2
pieces=${PIECES:-8000}
electra vocab "$@" --size "$pieces" --out "$out/tokenizer"
electra corpus "$@" --tokenizer "$out/tokenizer" --length 128 --out "$out/corpus"
electra pretrain small-muon data="$out/corpus" out="$out/run" train.hours="$hours" \
  model.vocab_size="$pieces" model.max_length=128 model.layers=3 model.hidden_size=256 model.heads=4 \
  model.feed_forward_size=1024 model.embedding_size=64 objective.generator.width=0.25 \
  train.optimizer=electra train.learning_rate=2.5e-4 train.adam_beta2=0.999 objective.generator.rate=4.0 \
  evaluate.every=4000 checkpoint.every=100000 checkpoint.keep=1 log.every=200 ${SETTINGS:-}
rm -rf "$out/embedded"
electra export "$out/run" --out "$out/embedded" --precision bf16
bytes=$(find "$out/embedded" -type f -exec cat {} + | wc -c)
if [ "$bytes" -gt 8000000 ]; then
  echo "$out/embedded has $bytes bytes; at most 8,000,000 are allowed" >&2
  exit 1
fi
electra detect "$out/embedded" "I think that you are write."
echo "$out/embedded: $bytes bytes; to ship it: cp -r $out/embedded src/electra/ and write its model card"
