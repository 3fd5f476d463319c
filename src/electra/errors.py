"""Errors caused by the user's input; each message is one line: where, what was found, what to do next."""

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, an exceeded quota, a file too large


class ElectraError(Exception):
    """The user's input is invalid; the message is one line to show."""


class ConfigError(ElectraError):
    """A config key, value or combination is invalid."""


class DataError(ElectraError):
    """A text, vocabulary or corpus cannot be used."""


class CheckpointError(ElectraError):
    """A model folder or weight file cannot be used."""


class TaskError(ElectraError):
    """A fine-tuning task or its data cannot be used."""
