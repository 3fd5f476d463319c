#!/bin/sh
# Train the model that is shipped with the package (src/electra/embedded) from text.
# runs/embedded.sh OUT HOURS TEXT...                    (SETTINGS="key=value ..." changes the training)
#
# Rules: at most 8,000,000 bytes with the tokenizer and the generator, to keep the package small. Therefore weights are
# stored in bf16, the vocabulary has 8,000 pieces, and the generator is 64 wide. English, uncased; the recipe of quick.
# Every line of the text is a document, since people show such a model single sentences. A higher temperature makes it
# bolder. The shipped model was trained for 0.05 hours on an H200, with the vocabulary of the one before it
# (results/2026-11-18-package).
set -eu
out=$1 hours=$2
shift 2
pieces=${PIECES:-8000}
electra vocab "$@" --size "$pieces" --out "$out/tokenizer"
electra corpus "$@" --tokenizer "$out/tokenizer" --length 128 --documents line --out "$out/corpus"
electra pretrain quick data="$out/corpus" out="$out/run" train.hours="$hours" \
  model.vocab_size="$pieces" model.layers=6 model.hidden_size=192 model.heads=3 model.feed_forward_size=192 \
  objective.generator.width=0.3333333333333333 objective.generator.depth=0.3333333333333333 \
  objective.generator.sharing=none objective.temperature=1.5 \
  evaluate.every=5000 evaluate.batches=16 checkpoint.every=100000 checkpoint.keep=1 log.every=200 ${SETTINGS:-}
rm -rf "$out/embedded"
electra export "$out/run" --out "$out/embedded" --precision bf16
bytes=$(find "$out/embedded" -type f -exec cat {} + | wc -c)
if [ "$bytes" -gt 8000000 ]; then
  echo "$out/embedded has $bytes bytes; at most 8,000,000 are allowed" >&2
  exit 1
fi
electra detect "$out/embedded" "I think that you are write."
echo "$out/embedded: $bytes bytes; to ship it: cp -r $out/embedded src/electra/ and write its model card"
