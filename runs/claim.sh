#!/bin/sh
# The paper's claim: ELECTRA-Small against BERT-Small, the same encoder, data and wall clock, then the same fine-tuning.
# runs/claim.sh CORPUS GLUE SQUAD CONLL OUT HOURS      (HOURS for each of the two)
set -e
corpus=$1 glue=$2 squad=$3 conll=$4 out=$5 hours=$6
common="data=$corpus train.hours=$hours train.warmup_steps=4000 evaluate.every=5000 checkpoint.every=20000 checkpoint.keep=1 log.every=500"
electra pretrain small out="$out/electra" $common
electra pretrain small out="$out/bert" objective.name=mlm $common
for model in electra bert; do
  electra glue "$out/$model" --data "$glue" --data "$squad" --data "$conll" --out "$out/$model-tuned" \
    --task cola --task mrpc --task sts-b --task rte --task sst-2 --task qnli --task squad-1.1 --task chunking \
    cola.seeds=5 mrpc.seeds=5 sts-b.seeds=5 rte.seeds=5 qnli.train_file=train_reconstructed.tsv
done
