"""Prompts for looking at what a model writes, when the user brings none.

They ask for short and long answers, facts, lists, code, a story, a letter: a model that never stops or repeats
itself shows it on some of them.
"""

from __future__ import annotations

from pathlib import Path

from trimtab.errors import TextError
from trimtab.evaluate.rows import read_file

PROMPTS = (
    "What is the capital of France?",
    "Explain in two sentences why the sky is blue.",
    "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "List five things to take along on a day of hiking.",
    "How does a bicycle stay upright?",
    "Write a Python function that returns the largest number of a list.",
    "Write a polite letter to a neighbour about music that is too loud at night.",
    "What is the difference between weather and climate?",
    "Give me a simple recipe for tomato soup.",
    "Name three animals that can fly.",
    "Summarize what a library is for, in one sentence.",
    "What should I consider before I buy a used car?",
    "Describe how bread is made, step by step.",
    "Tell me a joke about a cat.",
    "Why do people sleep?",
    "Translate into French: Good morning, how are you?",
)


def read_prompts(path: Path) -> list[str]:
    """One prompt a line, blank lines skipped; TextError for a file that is missing, empty or not UTF-8."""
    prompts = [line.strip() for line in read_file(path).split("\n") if line.strip()]
    if not prompts:
        raise TextError(f"{path} is empty")
    return prompts
