"""Tasks that cannot be run, each with the reason and the remedy."""

from collections.abc import Mapping
from typing import Any, Literal

from regrade.settings.worker_limits import REMOTE_CODE

Refusal = Literal["class", "audio", "unsafe_code"]

SENTENCES: Mapping[Refusal, str] = {
    "class": "it is a Python class with its own way of asking, not a yaml file; regrade runs tasks that are yaml files",
    "audio": "it plays audio, which regrade sends to no model",
    "unsafe_code": "its scoring runs the model's code without a sandbox, or a part of an answer as code; regrade's own code "
    "benchmarks run it in one",
}
"""Reason of each kind of refusal, to follow "Task '...' cannot be run: "."""
CODE_OF_THE_HUB = (
    f"is code of the Hub, which this worker does not allow; start the worker with {REMOTE_CODE}=1"
)
"""Reason why a metric cannot be used, after its name."""
RANKED_IMAGES = "it ranks continuations of what an image shows, and regrade shows images in chats that are answered"
IMAGES_NEED_CHAT = "it shows images, which a chat alone can hold; add `--format chat`"
IMAGES_IN_EXAMPLES = "it shows images, and its worked examples would show theirs; add `--n-shots 0`"
MIXED_METHODS = (
    "some of its tasks generate text and others rank continuations, and an answer set has one method; ask for its tasks or "
    "groups one by one"
)
MIXED_REQUESTS = (
    "it sends requests of several kinds for a question, and a row holds the answer to one kind"
)
MIXED_SAMPLING = "its tasks have different generation settings, and an answer set has one; ask for its tasks one by one"
MIXED_REPEATS = (
    "its tasks ask for different numbers of answers per question; ask for its tasks one by one"
)


def refusal_of(config: Mapping[str, Any]) -> Refusal | None:
    """Return the reason for which the task of a yaml file cannot be run, or None.

    Args:
        config: Content of the yaml file with its included files; functions may be unresolved.
    """
    if "class" in config:
        return "class"
    if config.get("doc_to_audio"):
        return "audio"
    if config.get("unsafe_code"):
        return "unsafe_code"
    return None
