"""Settings of single task families: how their files are read."""

from typing import Literal

from pydantic import Field

from electra.config.section import Few, Section, Share

Kind = Literal["classification", "multilabel", "regression", "tagging", "answering"]


class TaggingConfig(Section):
    """Columns of words and tags, and what the network predicts."""

    word_column: Few | None = Field(
        None, description="column of the word, counted from 1; default: the first, in CoNLL-U the second"
    )
    tag_column: Few | None = Field(None, description="column of the tag; default: the last, in CoNLL-U the fourth")
    scheme: Literal["bio", "bioes"] = Field(
        "bio",
        description="scheme that the network predicts; bioes: also marks ends and single words, as in the original",
    )
    spans: Literal["conlleval", "original"] = Field(
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
        None, description="column of the second text; of the context (answering) or options (choice)"
    )
    label: str | None = Field(None, description="column of the label, value, tags, answer or right option")
    id: str | None = Field(None, description="column of an identifier that predictions repeat")
    separator: str | None = Field(None, description="separator of several labels (or options) in one cell")
    dev_fraction: Share = Field(0.1, description="share of the training rows that is held out if there is no dev file")
