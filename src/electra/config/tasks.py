"""The knobs of single task families: how their files are to be read."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from electra.config.section import Section

Kind = Literal["classification", "multilabel", "regression", "tagging", "answering"]


class TaggingConfig(Section):
    """How words and their tags stand in files, and what the network is to predict."""

    word_column: PositiveInt | None = Field(
        None, description="column of the word, counted from 1; the first when not set, in CoNLL-U the second"
    )
    tag_column: PositiveInt | None = Field(
        None, description="column of the tag; the last when not set, in CoNLL-U the fourth"
    )
    scheme: Literal["bio", "bioes"] = Field(
        "bio", description="tags of the network's spans; bioes: ends and single words have tags too, as in the original"
    )
    spans: Literal["conlleval", "original"] = Field(
        "conlleval", description="whether a change of type starts a span, or goes unseen as in the original's scorer"
    )


class TableConfig(Section):
    """Which columns of the user's own table mean what; what is not set is detected, and shown."""

    kind: Kind | None = Field(None, description="what is to be predicted")
    text: str | None = Field(
        None, description="column of the text; of the words (tagging), of the question (answering)"
    )
    pair: str | None = Field(None, description="column of the second text; of the context (answering)")
    label: str | None = Field(None, description="column of the label, value, tags or answer")
    id: str | None = Field(None, description="column that predictions repeat")
    separator: str | None = Field(None, description="what stands between several labels in one cell")
    dev_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="share of the training rows that are held out where there is no dev file"
    )
