"""Settings of single task families: how their files are read."""

from typing import Literal

from pydantic import Field

from electra.config.section import Few, Pooling, Positive, Section, Share, Size

Kind = Literal["classification", "multilabel", "regression", "tagging", "answering"]
Scheme = Literal["bio", "bioes"]
SpanRule = Literal["conlleval", "original"]
TextPairs = Literal["neighbors", "titles", "dropout"]


class TaggingConfig(Section):
    """Columns of words and tags, and what the network predicts."""

    word_column: Few | None = Field(
        None, description="column of the word, counted from 1; default: the first, in CoNLL-U the second"
    )
    tag_column: Few | None = Field(None, description="column of the tag; default: the last, in CoNLL-U the fourth")
    scheme: Scheme = Field(
        "bio",
        description="scheme that the network predicts; bioes: also marks ends and single words, as in the original",
    )
    spans: SpanRule = Field(
        "conlleval",
        description="conlleval: a change of type starts a span; original: it is ignored, as in the original's scorer",
    )


class TableConfig(Section):
    """Columns of a user's table; those that are not set are detected and shown."""

    kind: Kind | None = Field(None, description="what to predict")
    text: str | None = Field(
        None, description="column of the text; of the words (tagging), question (answering) or context (choice)"
    )
    pair: str | None = Field(
        None,
        description="column of the second text (similarity: then negatives), context (answering) or options (choice)",
    )
    label: str | None = Field(None, description="column of the label, value, tags, answer or right option")
    id: str | None = Field(None, description="column of an identifier that predictions repeat")
    separator: str | None = Field(None, description="separator of several labels (or options) in one cell")
    dev_fraction: Share = Field(0.1, description="share of the training rows that is held out if there is no dev file")


class SimilarityConfig(Section):
    """Sentence vectors: how texts become vectors, and how these are trained."""

    pooling: Pooling | None = Field(
        None, description="mean of all states, or the first one ([CLS]); follows the model, else mean"
    )
    query_prompt: str | None = Field(None, description="text before each first text, such as a question")
    passage_prompt: str | None = Field(None, description="text before each second text, such as a passage")
    role: Literal["query", "passage"] = Field(
        "query", description="which of the two prompts a single text has, whose vector `predict` writes"
    )
    temperature: Positive = Field(0.05, description="cosines are divided by it in the loss")
    sizes: list[Size] = Field(
        [], description="smaller sizes that vectors can be cut to (Matryoshka); the full size is always trained"
    )
    chunk: Size = Field(
        32768, description="tokens in memory at a time; larger batches encode their texts twice (gradient caching)"
    )
    text_pairs: TextPairs | None = Field(
        None, description="pairs from raw text: a passage and the next, title and body, or a passage twice with dropout"
    )
