"""Worker side: render and tokenise requests in batches."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from regrade.engines.vllm_process.chat import Chat, RenderedChat, TemplateVariables
from regrade.engines.vllm_process.context import Need, too_long
from regrade.engines.vllm_process.continuations import (
    answer_tokens,
    continuations,
    in_one_pass,
    windows,
)
from regrade.engines.vllm_process.labels import LabelTokens, Passes, Tokens
from regrade.engines.vllm_process.pictures import UNPLANNED, Pictures
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import TokenizerLike

WireRequest = Mapping[str, Any]
"""A `Request` as JSON; `prompt` is a text, or a list of messages."""
_THOUGHT = "<think>"
"""The usual beginning of a thought; see `Prompts`."""
_AROUND_TURN = 32
"""Room for what a chat template writes around a turn and its answer, in tokens."""
_OPENS_A_THOUGHT = (
    "The chat template opens a thought, so that no label can follow the prompt. Use `--thinking off` or "
    "`--format completion`."
)


Ranking = Tokens | Passes
"""Token of each label, all scored in one pass; or sequences to score separately."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A rendered and tokenised request; `error` is set if it cannot be answered."""

    key: int
    text: str
    sampling: Mapping[str, Any]
    ids: Tokens
    ranking: Ranking | None = None
    """None if text is generated."""
    chat: bool = False
    """The prompt is a chat, in which the model may reason before its answer."""
    truncated: bool = False
    error: str | None = None
    error_permanent: bool = False
    """No setting of the engine would let this model answer the request."""
    greedy: bool = False
    """The rules of lm-evaluation-harness hold: greedy decoding is compared with the labels, and each is cut for itself."""
    contexts: tuple[str, ...] | None = None
    """Text before each label, if it is not the same for all of them."""
    structure: Mapping[str, Any] | None = None
    """Form of the answer, as the fields of `regrade.records.Structure`."""
    reasons: bool = False
    """The model may reason before the answer, without this form."""
    cut_middle: bool = False
    """If the prompt does not fit, its two ends are kept."""
    tools: Sequence[Mapping[str, Any]] = ()
    """Functions that the answer may call."""
    stored: bool = False
    """A stored answer is read, of which the log-probability of each token is wanted."""
    shown: tuple[str, ...] = ()
    """sha256 of each image, in the order of their placeholders."""
    image_tokens: int = 0
    """Tokens that the images have beyond their placeholders in `ids`."""
    later: int = 0
    """Tokens of the turns that follow in the conversation, with their answers at their longest."""

    @property
    def separate(self) -> Passes | None:
        """Sequences to score separately, if there are any."""
        return self.ranking if isinstance(self.ranking, Passes) else None

    @property
    def sequences(self) -> Sequence[Tokens]:
        """Tokens of each request to vLLM: of the prompt, or of each sequence to score separately."""
        return [self.ids] if self.separate is None else self.separate.sequences

    @property
    def passes(self) -> int:
        """Number of labels that need a separate pass; the windows of a text count as one label."""
        return 0 if self.separate is None else len(set(self.separate.owners))

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, with those of its images."""
        return len(self.ids) + self.image_tokens

    @property
    def need(self) -> Need:
        """Number of tokens that the request needs in the context."""
        if self.separate is None:
            new = 1 if self.ranking is not None else int(self.sampling["max_tokens"])
            return Need(self.prompt_tokens, new)
        longest = max(len(sequence) for sequence in self.sequences)
        prompt = min(len(self.ids), longest)
        return Need(prompt + self.image_tokens, longest - prompt + 1)


class Prompts:
    """Renders and tokenises requests for one model."""

    def __init__(
        self,
        tokenizer: "TokenizerLike",
        chat: Chat | None,
        *,
        thought: str | None = None,
        window: int = 2048,
        limit: int = sys.maxsize,
        reads_calls: bool = False,
        pictures: Pictures | None = None,
        truncate: bool = False,
    ) -> None:
        """Prepare for a model.

        Args:
            tokenizer: The model's tokenizer.
            chat: Renders its chats; None if the model has none.
            thought: Text with which its thoughts begin. None: the usual one.
            window: Context length in tokens in which long texts are ranked part by part; the default is lm_eval's for a
                model without a limit.
            limit: Context length in tokens that the model allows. An answer with reasoning has at most what it leaves after the prompt.
            reads_calls: Calls of tools in the answers will be read.
            pictures: Shows the images of requests; None: requests show none.
            truncate: Prompts that do not fit may be cut.
        """
        self.pictures = pictures
        self._reads_calls = reads_calls
        self._tokenizer, self._chat, self._thought = tokenizer, chat, thought or _THOUGHT
        self._window, self._limit, self._truncate = window, limit, truncate
        self._labels = {is_chat: LabelTokens() for is_chat in (False, True)}

    @property
    def has_chats(self) -> bool:
        """True if the model can be asked in chats."""
        return self._chat is not None

    def keep_images(self, images: Mapping[str, str]) -> None:
        """Keep files of images that later requests show: their bytes in base64, by sha256."""
        if self.pictures is not None:
            self.pictures.keep(images)

    def check_tools(self, model: str) -> None:
        """Refuse tools that the model does not get, or whose calls are not read.

        Args:
            model: Name of the model.

        Raises:
            SettingsError: If the chat template does not write tools, or there is no parser of calls.
        """
        template = None if self._chat is None else self._chat.template
        if template is not None and not re.search(r"\btools\b", template):
            raise SettingsError(
                f"Benchmarks give the model tools, but the chat template of '{model}' writes none. Choose a model with tools, or "
                "set `prompt.chat_template`."
            )
        if not self._reads_calls:
            raise SettingsError(
                "Benchmarks give the model tools, but `engine.tool_parser` does not say how its calls are read. Set "
                "it to vLLM's parser for the model, such as `hermes` "
                "(https://docs.vllm.ai/en/latest/features/tool_calling.html)."
            )

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of plain texts."""
        return [[*tokens] for tokens in self._tokenize(texts)]

    def prepare(self, requests: Sequence[WireRequest]) -> list[Prepared]:
        """Return the requests in the same order, with text and token ids, not cut yet."""
        stored = [request for request in requests if request.get("stored")]
        prepared = {request["key"]: self._read(request) for request in stored}
        for is_chat in (False, True):
            group = [
                r
                for r in requests
                if isinstance(r["prompt"], list) is is_chat and r["key"] not in prepared
            ]
            # Repeats of a question follow each other.
            runs = [
                self._showing(_Run(prompt, variables, list(run), images=images))
                for (prompt, variables, images), run in groupby(
                    group,
                    key=lambda request: (
                        request["prompt"],
                        _variables(request),
                        tuple(request.get("images", ())),
                    ),
                )
            ]
            for run, rendered in zip(runs, self._rendered(runs), strict=True):
                counted = self._counted(run, rendered) if run.shown else run
                for request in run.requests:
                    prepared[request["key"]] = self._prepared(request, counted, rendered)
        return [prepared[request["key"]] for request in requests]

    def _showing(self, run: "_Run") -> "_Run":
        """Return a run with images in place of their marks, or with the error why they cannot be shown."""
        if not run.images:
            return run
        if self.pictures is None:
            return replace(run, error=UNPLANNED)
        if isinstance(run.prompt, str):
            return replace(run, error="Images can be shown in chats only.")
        if any(request["labels"] and request["ranking"] != "labels" for request in run.requests):
            return replace(run, error="Continuations cannot be ranked after images.")
        chat = self.pictures.shown(run.prompt, run.images)
        if not chat.shown:
            return run
        return replace(run, prompt=chat.messages, shown=chat.shown, error=chat.error)

    def _counted(self, run: "_Run", rendered: RenderedChat) -> "_Run":
        """Return a run with the tokens of its images, and the prompt with their marks, as it is stored."""
        if self.pictures is None or run.error is not None or rendered.error is not None:
            return run
        marked = self.pictures.with_marks(rendered.text, run.shown)
        try:
            tokens = self.pictures.tokens(rendered.ids, run.shown)
        except ValueError as error:
            return replace(run, marked=marked, error=str(error))
        return replace(run, marked=marked, image_tokens=tokens - len(rendered.ids))

    def _rendered(self, runs: "Sequence[_Run]") -> Iterator[RenderedChat]:
        """Yield the prompts with their tokens; all are text, or all are chats."""
        for variables, equal in groupby(runs, key=lambda run: run.variables):
            prompts = [run.prompt for run in equal]
            if isinstance(prompts[0], str):
                texts = [str(prompt) for prompt in prompts]
                pairs = zip(texts, self._tokenize(texts), strict=True)
                yield from (RenderedChat(text, ids) for text, ids in pairs)
            else:
                yield from self._chats.render(prompts, variables)

    def _prepared(self, request: WireRequest, run: "_Run", rendered: RenderedChat) -> Prepared:
        is_chat = not isinstance(run.prompt, str)
        error, ranking = run.error or rendered.error, None
        if error is None and request["labels"]:
            if is_chat and rendered.text.rstrip().endswith(self._thought):
                error = _OPENS_A_THOUGHT
            elif request["ranking"] != "labels":
                return self._ranked(request, run, rendered)
            else:
                ranking = self._labels[is_chat].of(
                    rendered.text,
                    rendered.ids,
                    tuple(request["labels"]),
                    partial(self._continued, run, rendered),
                )
                if isinstance(ranking, Passes) and min(ranking.starts) < 1:
                    error = "The tokenizer splits the prompt differently when a label follows."
        reasons = is_chat and request.get("reasons", False)
        sampling = request["sampling"]
        if reasons and ranking is None:
            sampling = self._with_room(sampling, len(rendered.ids) + run.image_tokens)
        prepared = Prepared(
            request["key"],
            rendered.text if run.marked is None else run.marked,
            sampling,
            rendered.ids,
            ranking,
            is_chat,
            error=error,
            error_permanent=error not in (None, UNPLANNED),
            structure=request.get("structure"),
            reasons=reasons,
            cut_middle=request.get("cut_middle", False),
            tools=request.get("tools", ()),
            shown=run.shown,
            image_tokens=run.image_tokens,
            later=self._later(request),
        )
        # The context is chosen for what is left of it.
        return self._without_middle(prepared, self._limit)

    def _later(self, request: WireRequest) -> int:
        """Return the tokens of the turns that follow, with their answers at their longest."""
        turns = request.get("later") or ()
        if not turns:
            return 0
        answer = int(request["sampling"]["max_tokens"])
        return sum(len(ids) + answer + _AROUND_TURN for ids in self._tokenize_alone(turns))

    def _with_room(self, sampling: Mapping[str, Any], prompt: int) -> Mapping[str, Any]:
        """Return sampling params with what the model's context leaves after a prompt, if that is at least half of `max_tokens`."""
        most = int(sampling["max_tokens"])
        room = self._limit - prompt
        return {**sampling, "max_tokens": room} if most / 2 <= room < most else sampling

    def _ranked(self, request: WireRequest, run: "_Run", rendered: RenderedChat) -> Prepared:
        """Return a request that ranks continuations or a whole text by the rules of lm-evaluation-harness."""
        is_chat, labels = not isinstance(run.prompt, str), request["labels"]
        contexts, error = [rendered.text] * len(labels), None
        if request["contexts"]:
            contexts, error = self._contexts(request["contexts"], run)
        first = cast(
            "int | None", self._tokenizer.bos_token_id
        )  # many have none, whatever the type says
        first_token = self._tokenizer.eos_token_id if first is None else first
        prepared = Prepared(
            request["key"],
            rendered.text,
            request["sampling"],
            rendered.ids,
            chat=is_chat,
            greedy=True,
            contexts=tuple(contexts) if request["contexts"] else None,
        )
        if error is not None:
            return _impossible(prepared, error)
        needs_first = request["ranking"] == "text" or "" in contexts
        if needs_first and first_token is None:
            return _impossible(prepared, "The tokenizer has no token for the beginning of a text.")
        encode = self._tokenize if not is_chat else self._tokenize_alone
        if request["ranking"] == "text":
            [tokens] = encode(labels)
            found = windows(tokens, first_token=first_token or 0, context=self._window)
        else:
            found = continuations(
                contexts,
                labels,
                encode=encode,
                encode_alone=self._tokenize_alone,
                first_token=first_token or 0,
            )
            if len(set(contexts)) == 1 and (single := in_one_pass(found)) is not None:
                return replace(prepared, ids=single[0], ranking=single[1])
        if not found.starts or min(found.starts) < 1:
            return _impossible(prepared, "The text to rank is empty, or no text precedes it.")
        return replace(prepared, ids=found.sequences[0][: found.starts[0]], ranking=found)

    def _read(self, request: WireRequest) -> Prepared:
        """Return a request that reads a stored answer."""
        prompt, answer = request["prompt"], request["stored"]
        ids, found = answer_tokens(
            prompt,
            answer,
            encode=self._tokenize,
            encode_alone=self._tokenize_alone,
            decode=partial(self._tokenizer.decode, skip_special_tokens=True),
        )
        # The row needs no prompt: that of the answer has it.
        prepared = Prepared(request["key"], "", request["sampling"], ids, greedy=True, stored=True)
        if isinstance(found, str):
            return _impossible(prepared, found)
        return replace(prepared, ranking=Passes(([*ids, *found],), (len(ids),), (0,)))

    def _contexts(self, prompts: Sequence[Any], run: "_Run") -> tuple[list[str], str | None]:
        """Return the texts of contexts, and the error of the first that the chat template rejects."""
        chats = [prompt for prompt in prompts if not isinstance(prompt, str)]
        rendered = iter(self._chats.render(chats, run.variables) if chats else [])
        found = [
            RenderedChat(prompt, []) if isinstance(prompt, str) else next(rendered)
            for prompt in prompts
        ]
        errors = (context.error for context in found if context.error is not None)
        return [context.text for context in found], next(errors, None)

    def _without_middle(self, prepared: Prepared, context: int) -> Prepared:
        """Return a request whose prompt may be cut there with the two ends that fit, the second a token longer if they differ."""
        room = context - int(prepared.sampling["max_tokens"])
        if (
            not prepared.cut_middle
            or prepared.shown
            or prepared.error is not None
            or prepared.ranking is not None
            or not 1 < room < len(prepared.ids)
        ):
            return prepared
        ids = [*prepared.ids[: room // 2], *prepared.ids[room // 2 - room :]]
        return replace(prepared, ids=ids, text=self._tokenizer.decode(ids), truncated=True)

    def fit(self, prepared: Prepared, context: int) -> Prepared:
        """Return the request if it fits into the context; otherwise cut if allowed, or with an error.

        The beginning is cut, or of some benchmarks the middle; a prompt with images is not cut.

        Args:
            prepared: Result of `prepare`.
            context: Context length in tokens with which the model was loaded.
        """
        prepared = self._without_middle(prepared, context)
        need = prepared.need
        if prepared.error is not None or need.total <= context:
            return prepared
        too_large = replace(
            prepared, error=too_long(need, context), error_permanent=context >= self._limit
        )
        if prepared.shown or not self._truncate:
            return too_large
        ranking, surplus = prepared.ranking, [need.total - context]
        if isinstance(ranking, Passes):
            surplus = [max(0, len(ids) + 1 - context) for ids in ranking.sequences]
            if not prepared.greedy:  # labels have their prompt in common
                surplus = [max(surplus)] * len(surplus)
            ranking = ranking.without_first(surplus)
            if min(ranking.starts) < 1:
                return too_large
        ids = prepared.ids[surplus[0] :]
        if len(ids) < (2 if isinstance(ranking, Passes) and not prepared.greedy else 1):
            return too_large
        return replace(
            prepared, ids=ids, text=self._tokenizer.decode(ids), ranking=ranking, truncated=True
        )

    @property
    def _chats(self) -> Chat:
        if self._chat is None:  # `tokenising` refuses chats for such a model
            raise RuntimeError("the model has no chat template")
        return self._chat

    def _continued(
        self, run: "_Run", rendered: RenderedChat, labels: Sequence[str]
    ) -> list[Tokens]:
        """Return the tokens of a prompt with each of the labels after it."""
        if isinstance(run.prompt, str):
            return self._tokenize([rendered.text + label for label in labels])
        return self._chats.answered(run.prompt, rendered, labels, run.variables)

    def _tokenize_alone(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of texts, without special tokens."""
        return list(self._tokenizer(list(texts), add_special_tokens=False)["input_ids"])

    def _tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of plain texts, with the special tokens that the model expects."""
        return list(self._tokenizer(list(texts), add_special_tokens=True)["input_ids"])


@dataclass(frozen=True, slots=True)
class _Run:
    """Requests with the same prompt."""

    prompt: Any
    """Text, or messages."""
    variables: TemplateVariables
    requests: list[WireRequest]
    images: tuple[str, ...] = ()
    """sha256 of the images whose marks the prompt may hold."""
    shown: tuple[str, ...] = ()
    image_tokens: int = 0
    """As of a `Prepared`."""
    marked: str | None = None
    """The rendered prompt with marks of its images; None if it shows none."""
    error: str | None = None


def _impossible(prepared: Prepared, error: str) -> Prepared:
    return replace(prepared, error=error, error_permanent=True)


def _variables(request: WireRequest) -> TemplateVariables:
    day = request["day"]
    tools = request.get("tools")
    arguments = request["template_arguments"] | ({"tools": tools} if tools else {})
    return TemplateVariables(arguments, None if day is None else date.fromisoformat(day))
