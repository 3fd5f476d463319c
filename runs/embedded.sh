#!/bin/sh
# The model that comes with the package, from text to the folder that goes to src/electra/embedded.
# runs/embedded.sh OUT HOURS TEXT...                    (SETTINGS="key=value ..." changes the training)
#
# Rules: at most 8,000,000 bytes with the tokenizer and the generator, so that the package stays small. That is why
# weights are stored in bf16 and embeddings are 96 wide: with 128 it would be 8.7 MB. English, uncased; the preset quick
# with four layers of three quarters of its width, since eight of half of it learned too little
# (results/2026-11-15-embedded-first-try).
set -eu
out=$1 hours=$2
shift 2
pieces=${PIECES:-8000}
electra vocab "$@" --size "$pieces" --out "$out/tokenizer"
electra corpus "$@" --tokenizer "$out/tokenizer" --length 128 --out "$out/corpus"
electra pretrain quick data="$out/corpus" out="$out/run" train.hours="$hours" \
  model.vocab_size="$pieces" model.max_length=128 model.layers=4 model.hidden_size=192 model.heads=3 \
  model.feed_forward_size=768 model.embedding_size=96 objective.generator.width=0.3333 \
  evaluate.every=2000 checkpoint.every=5000 checkpoint.keep=1 log.every=200 ${SETTINGS:-}
rm -rf "$out/embedded"
electra export "$out/run" --out "$out/embedded" --precision bf16
bytes=$(find "$out/embedded" -type f -exec cat {} + | wc -c)
if [ "$bytes" -gt 8000000 ]; then
  echo "$out/embedded has $bytes bytes: more than 8,000,000" >&2
  exit 1
fi
electra detect "$out/embedded" "the chef ate the car"
echo "$out/embedded: $bytes bytes; to ship it: cp -r $out/embedded src/electra/"
