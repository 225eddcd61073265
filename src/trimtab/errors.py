"""What can go wrong because of something a user gave us.

Each class also is the built-in that a caller would expect, so `except ValueError` works as usual. The command
line prints the message as one line and exits with code 2; a message says what was wrong, with the value, and
what to do.
"""


class TrimtabError(Exception):
    """Base of every error that a user can cause and can mend."""


class OptionError(TrimtabError, ValueError):
    """An option has a value that cannot be used, or an unknown name."""


class ModelError(TrimtabError, ValueError):
    """A model cannot be read, or is not one that can be compressed."""


class TextError(TrimtabError, ValueError):
    """A text (calibration, evaluation, tasks) is missing, empty, too short or not text."""


class StatisticsError(TrimtabError, ValueError):
    """A statistics file is damaged, incomplete, or belongs to another model or text."""


class CheckpointError(TrimtabError, ValueError):
    """A compressed checkpoint is damaged or incomplete."""


class OutputError(TrimtabError, OSError):
    """An output cannot be written: it exists already, is not writable, or the disk is full."""
