"""All requests of a task's split, as lm_eval builds them.

lm_eval draws worked examples in the order of the documents, from one generator: the prompts of a part of the split
would differ. All are therefore built, whatever the limit.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, cast

from regrade.lm_eval.documents import (
    Keep,
    document_of,
    document_text,
    images_of,
    kept_files,
    no_images,
)
from regrade.lm_eval.made import QuestionMaker
from regrade.lm_eval.opened import Datasets, open_dataset_task
from regrade.lm_eval.package import quiet
from regrade.lm_eval.plan import TaskPlan, cannot_run, not_loaded
from regrade.lm_eval.refusals import (
    IMAGES_IN_EXAMPLES,
    IMAGES_NEED_CHAT,
    MIXED_REQUESTS,
    RANKED_IMAGES,
)
from regrade.lm_eval.seeds import FEWSHOT_SEED, seeded
from regrade.settings.errors import RegradeError

Prompt = str | tuple[Mapping[str, str], ...]
"""Text, or messages for a chat template."""
RequestKind = Literal["generate_until", "loglikelihood", "loglikelihood_rolling"]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """Requests of a document."""

    doc_id: int
    """Number of the document in the split, from 0."""
    document: str
    """The document as JSON text, after the task's `process_docs`."""
    contexts: tuple[Prompt, ...]
    """Context of each continuation; the prompt, if text is generated; empty for rolling requests."""
    continuations: tuple[str, ...]
    """Continuations whose log-probability is requested; the whole text for rolling requests."""
    target: str
    choices: tuple[str, ...]
    images: tuple[str, ...] = ()
    """Marks of its images in the contexts, in order."""
    error: str | None = None
    """Reason why it cannot be asked."""


@dataclass(frozen=True, slots=True)
class AskedTask:
    """Requests of a task, in the order of the split."""

    name: str
    version: str
    kind: RequestKind
    n_shots: int
    repeats: int
    generation: Mapping[str, Any]
    """`generation_kwargs` of the task; empty unless text is generated."""
    multiple_inputs: int
    """`multiple_input` of lm_eval: number of choices of the first document, if choices are in the context; else 0."""
    multiple_targets: int
    """`multiple_target` of lm_eval: number of targets of the first document, if it has a list of them; else 0."""
    questions: Sequence[AskedQuestion]


@contextmanager
def _computed_here() -> Iterator[None]:
    """Make `datasets` compute documents anew, because its cache on disk may hold random choices of another process."""
    import datasets

    cached = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        yield
    finally:
        if cached:
            datasets.enable_caching()


class _ChatText(str):
    """A chat instead of the text that lm_eval expects from a chat template."""

    __slots__ = ("messages",)
    messages: tuple[Mapping[str, str], ...]


def ask(
    plan: TaskPlan,
    datasets: Datasets,
    *,
    n_shots: int | None = None,
    chat: bool = False,
    system: str | None = None,
    maker: QuestionMaker | None = None,
    keep: Keep = no_images,
) -> list[AskedTask]:
    """Return the requests of all tasks of a name.

    Args:
        plan: The tasks.
        datasets: Returns their datasets.
        n_shots: Number of worked examples; None: as each task sets it. A task that sets 0 keeps 0.
        chat: Make chats, with worked examples as turns.
        system: System message, or text at the start of the prompt.
        maker: Makes the questions of tasks that have a function for it; None: their datasets hold them.
        keep: Keeps the images of documents.

    Raises:
        SettingsError: If the code of a task fails, a document has values that JSON cannot hold, or a task sends several
            kinds of requests.
        SourceError, HubError: If a dataset cannot be read.
    """
    making = nullcontext() if maker is None else maker.at_work()
    with quiet(), seeded(), _computed_here(), kept_files(), making:
        tasks = {}
        for name, config in plan.configs.items():
            tasks[name] = task = open_dataset_task(config, datasets, maker)
            own = task.get_config("num_fewshot")
            if n_shots is not None and own != 0:
                task.set_config("num_fewshot", n_shots)
            elif own is None:
                task.set_config("num_fewshot", 0)
            task.set_fewshot_seed(FEWSHOT_SEED)
        return [
            _asked(name, task, chat=chat, system=system, keep=keep) for name, task in tasks.items()
        ]


def _asked(
    name: str,
    task: Any,  # noqa: ANN401 - of lm_eval
    *,
    chat: bool,
    system: str | None,
    keep: Keep,
) -> AskedTask:
    if task.config.doc_to_image is not None:
        _show_images(name, task, chat=chat, keep=keep)
    try:
        task.build_all_requests(
            system_instruction=system,
            apply_chat_template=chat,
            fewshot_as_multiturn=chat,
            chat_template=_chat_text if chat else None,
        )
    except RegradeError:
        raise
    except Exception as error:
        raise not_loaded(name, error) from error
    kinds = {instance.request_type for instance in task.instances}
    if len(kinds) > 1:
        raise cannot_run(name, MIXED_REQUESTS)
    by_document: dict[int, list[Any]] = {}
    for instance in task.instances:
        by_document.setdefault(instance.doc_id, []).append(instance)
    # Read again, as lm_eval does to score: the functions of some tasks change the document that they are given.
    documents = {
        doc_id: document_text(document, name, doc_id, keep)
        for doc_id, document in task.doc_iterator()
    }
    kind = cast("RequestKind", kinds.pop())
    return AskedTask(
        name=name,
        version=str(task.VERSION),
        kind=kind,
        n_shots=task.get_config("num_fewshot"),
        repeats=task.get_config("repeats") or 1,
        generation=task.config.generation_kwargs or {} if kind == "generate_until" else {},
        multiple_inputs=task.multiple_input,
        multiple_targets=task.multiple_target,
        questions=[
            _question(task, kind, doc_id, documents[doc_id], instances)
            for doc_id, instances in by_document.items()
        ],
    )


IMAGE_PLACE = "<image>"
"""Text of a task that stands for the next image, as in lm_eval's models that see."""


def _show_images(name: str, task: Any, *, chat: bool, keep: Keep) -> None:  # noqa: ANN401 - of lm_eval
    """Make a task give what stands for its images, since the pixels of all documents are large.

    Raises:
        SettingsError: If its images cannot be shown.
    """
    if task.OUTPUT_TYPE != "generate_until":
        raise cannot_run(name, RANKED_IMAGES)
    if not chat:
        raise cannot_run(name, IMAGES_NEED_CHAT)
    if task.get_config("num_fewshot"):
        raise cannot_run(name, IMAGES_IN_EXAMPLES)
    original, count = task.doc_to_image, itertools.count()
    task.doc_to_image = lambda doc, *feature: (
        original(doc, *feature) if feature else images_of(original(doc), name, next(count), keep)
    )


def _with_marks(
    contexts: tuple[Prompt, ...], images: Sequence[str]
) -> tuple[tuple[Prompt, ...], str | None]:
    """Return contexts with what stands for images in their places, and the reason if there are more or fewer of these."""
    left = iter(images)
    places = 0

    def mark(_: re.Match[str]) -> str:
        nonlocal places
        places += 1
        return next(left, IMAGE_PLACE)

    shown: list[Prompt] = [
        context
        if isinstance(context, str)
        else tuple(
            {**turn, "content": re.sub(IMAGE_PLACE, mark, turn["content"])} for turn in context
        )
        for context in contexts
    ]
    if places == len(images):
        return tuple(shown), None
    problem = (
        f"The task's prompt has {places} places for images, and its document {len(images)} images."
    )
    return contexts, problem


def _question(
    task: Any,  # noqa: ANN401 - of lm_eval
    kind: RequestKind,
    doc_id: int,
    text: str,
    instances: Sequence[Any],
) -> AskedQuestion:
    document = document_of(text)
    ordered = sorted(instances, key=lambda instance: instance.idx)
    contexts: tuple[Prompt, ...] = ()
    continuations: tuple[str, ...] = ()
    if kind == "loglikelihood_rolling":
        continuations = tuple(instance.args[0] for instance in ordered)
    else:
        contexts = tuple(_prompt(instance.args[0]) for instance in ordered)
    if kind == "loglikelihood":
        continuations = tuple(instance.args[1] for instance in ordered)
    choices = (
        tuple(map(str, task.doc_to_choice(document)))
        if task.config.doc_to_choice is not None
        else ()
    )
    shown = ordered[0].args[-1] if task.config.doc_to_image is not None else {"visual": ()}
    images: tuple[str, ...] = shown["visual"]
    error = None
    if task.config.doc_to_image is not None:
        contexts, error = _with_marks(contexts, images)
    return AskedQuestion(
        images=images,
        error=error,
        doc_id=doc_id,
        document=text,
        contexts=contexts,
        continuations=continuations,
        target=_target(task.doc_to_target(document), choices),
        choices=choices,
    )


def _prompt(context: str) -> Prompt:
    return context.messages if isinstance(context, _ChatText) else context


def _target(target: object, choices: Sequence[str]) -> str:
    """Return a target as text for people; the task's own code reads the document."""
    if isinstance(target, list):
        return "\n".join(_target(part, choices) for part in target)
    if isinstance(target, int) and 0 <= target < len(choices):
        return choices[target]
    return str(target)


def _chat_text(messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:  # noqa: ARG001
    """Stand in for a chat template, because the engine renders the messages.

    A last message of the assistant is continued.
    """
    text = _ChatText("\n".join(message["content"] for message in messages))
    text.messages = tuple(messages)
    return text
