"""What can go wrong through the user's input: each error is one line that says where, what, and what to do next."""

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what the system says of a full disk


class ElectraError(Exception):
    """The user's input cannot be used; the message is the one line to show."""


class ConfigError(ElectraError):
    """A config key, value or combination is refused."""


class DataError(ElectraError):
    """A text, vocabulary or corpus cannot be used."""


class CheckpointError(ElectraError):
    """A model folder or weight file cannot be used."""


class TaskError(ElectraError):
    """A fine-tuning task or its data cannot be used."""
