"""Questions of a judge run: stored answers, put into the template of a rubric."""

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from regrade.benchmarks.base import UsualBenchmark
from regrade.benchmarks.questions.prompting import chat_settings, system_turn
from regrade.benchmarks.questions.samples import check_limit, spread
from regrade.benchmarks.questions.templates import RowTemplate, TemplateValueError
from regrade.judging.criteria import Criteria, CriteriaSource, numbered, points_text, target_of
from regrade.judging.stored import NO_ANSWER, NO_BASELINE, JudgedAnswer, digest
from regrade.records import Message, Sample
from regrade.records.patterns import compiled
from regrade.records.rubrics.base import (
    ANSWER,
    CONVERSATION,
    FIRST,
    LAST_QUESTION,
    NAMES,
    QUESTION,
    REFERENCE,
    REPLY,
    SECOND,
    TRAJECTORY,
    TURNS,
    Rubric,
)
from regrade.records.rubrics.facts import JudgedSet, JudgeRun, rubric_facts
from regrade.records.rubrics.forms import most_tokens, reply_text, structure_of
from regrade.records.specification import BenchmarkIdentity, PromptIdentity
from regrade.scorers import JUDGE
from regrade.settings import JUDGE_PREFIX, Method, PromptFormat, PromptSettings, SamplingParams
from regrade.settings.errors import SettingsError

# Texts in a judge's prompt, between marks that they do not contain, and without the control tokens of a chat.

_CONTROL_TOKEN = compiled(
    r"<(?:[|\uFF5C]|<?/?(?P<name>[\w:]+)[|\uFF5C]?>)"
    r"|\[(?:\||e~\[|/?[A-Za-z]{0,20}[A-Z]{2}[A-Z_0-9]{0,40}\]|control_\d{1,6}\])"
    r"|\]~!?b[\[\]]"
)
"""Beginning of texts such as `<|im_end|>`, `<start_of_turn>`, `</s>`, `[INST]` and `</think>`, which tokenizers of chat
models turn into one token wherever they stand."""
_NAMES_OF_TOKENS = frozenset(
    (
        *("s", "bos", "eos", "eod", "pad", "unk", "mask", "sep", "cls", "sop", "eop"),
        *("think", "thinking", "tool", "tools", "image", "img", "audio", "video"),
        *("SYS", "channel", "turn"),
    )
)
_LONGEST_NAME = 40
"""Most characters before and after the `_` in the name of a token, and after `seed:`."""
_LONGEST_TOKEN = 100
"""Characters of a text in which such a token ends."""
_FIRST = compiled(r"[<\[\]]")
_BREAK = "\N{ZERO WIDTH SPACE}"


def without_control_tokens(text: str) -> str:
    """Return a text with a zero-width space in all that a tokenizer would turn into a control token of a chat.

    Otherwise an answer could end the user's turn and speak as the judge.
    """
    return _FIRST.sub(_without_token, text)


def _without_token(found: "re.Match[str]") -> str:
    """Return a first character, with a zero-width space behind it if it begins a token."""
    begin = found.start()
    token = _CONTROL_TOKEN.match(found.string[begin : begin + _LONGEST_TOKEN])
    is_token = token is not None and (token["name"] is None or _is_name_of_token(token["name"]))
    return found[0] + _BREAK if is_token else found[0]


def _is_name_of_token(name: str) -> bool:
    kind, mark, seed = name.partition(":")
    if mark:
        return kind == "seed" and ":" not in seed and 1 <= len(seed) <= _LONGEST_NAME
    number = name.removeprefix("unused")
    return (
        name in _NAMES_OF_TOKENS
        or (number != name and number.isdecimal() and len(number) <= 6)
        or "_" in name[max(0, len(name) - _LONGEST_NAME - 1) : _LONGEST_NAME + 1]
    )


def fenced(texts: Mapping[str, str]) -> dict[str, str]:
    """Return each text between two marks such as `<answer-3f9a2c1b>` and `</answer-3f9a2c1b>`, without control tokens.

    The digits depend on all texts of the prompt, so that the prompt is always the same, and none of the texts contains them:
    an answer cannot close its marks.

    Args:
        texts: Texts by the name in their marks.
    """
    shown = {name: without_control_tokens(text) for name, text in texts.items()}
    content = "\0".join(shown.values())
    number = 0
    while True:
        mark = hashlib.sha256(f"{number}\0{content}".encode()).hexdigest()[:8]
        if mark not in content:
            break
        number += 1
    return {name: f"<{name}-{mark}>\n{text}\n</{name}-{mark}>" for name, text in shown.items()}


logger = logging.getLogger("regrade.plan")
VERSION = 2
"""Raised when prompts, targets or ids of judge runs change; a rubric's own hash covers its template and form."""
PROMPT = "prompt"
"""Field of a sample with the messages that the judge gets."""
_ROLE = re.compile(r"^--- (system|user|assistant)[ \t]*\n", re.M)
"""Line before each message of a template that begins with one; other templates are one message of the user."""


def _messages(rubric: Rubric) -> list[tuple[str, RowTemplate]]:
    """Return role and template of each message of a rubric."""
    _, *parts = (
        _ROLE.split(rubric.template)
        if _ROLE.match(rubric.template)
        else ("", "user", rubric.template)
    )
    name = f"of rubric '{rubric.name}'"
    return [
        (role, RowTemplate(name, text)) for role, text in zip(parts[::2], parts[1::2], strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers to judge: an answer set, or the texts of the self-test."""

    benchmark: str
    answers: Sequence[JudgedAnswer]
    identity: JudgedSet | None
    withheld: bool = False
    groups: Mapping[str, tuple[str, ...]] | None = None


class JudgeQuestions(UsualBenchmark):
    """Benchmark `judge:<rubric>:<judged benchmark>`: a question for each judged answer, with its sample id."""

    version = VERSION
    paper = ""
    method: Method = "generate"
    scorers = (JUDGE,)

    def __init__(
        self,
        judged: Judged,
        rubric: Rubric,
        *,
        baseline: Judged | None = None,
        criteria: str | None = None,
        judge_repeats: int = 1,
        prompt: PromptSettings,
        limit: int | None = None,
    ) -> None:
        """Make the questions.

        Args:
            judged: Answers to judge.
            rubric: Rubric by which they are judged.
            baseline: Answers to compare with, for rubrics of the kind `pairwise`.
            criteria: File with criteria, for rubrics of this kind; None: they are stored with the questions.
            judge_repeats: Verdicts on each answer.
            prompt: Format and system message of the prompts.
            limit: Number of questions, spread evenly; None: all.

        Raises:
            SettingsError: If the rubric does not fit the answers, or its template is not valid.
        """
        check_limit(limit)
        check_sides(rubric, compares=baseline is not None)
        check_prompt(prompt)
        self.name = f"{JUDGE_PREFIX}{rubric.name}:{judged.benchmark}"
        self.description = (
            f"Verdicts of a judge on answers to {judged.benchmark}, by rubric '{rubric.name}'."
        )
        self.groups = dict(judged.groups or {})
        self.withheld = judged.withheld or (baseline is not None and baseline.withheld)
        self._judged, self._baseline, self._rubric = judged, baseline, rubric
        self._criteria_path = criteria
        self._criteria = CriteriaSource(criteria)
        self._judge_repeats, self._prompt, self._limit = judge_repeats, prompt, limit
        self.format: PromptFormat = prompt.format or "chat"
        self._templates = _messages(rubric)
        self._names = frozenset().union(*(template.names for _, template in self._templates))
        columns = frozenset().union(*(template.row_columns for _, template in self._templates))
        unknown = (self._names - set(NAMES[rubric.kind])) | columns
        if unknown:
            name = min(unknown)
            raise SettingsError(
                f"The template of rubric '{rubric.name}' uses '{name}', expected only {', '.join(NAMES[rubric.kind])}."
            )
        judged_texts = (FIRST, SECOND) if rubric.kind == "pairwise" else (ANSWER,)
        unused = [text for text in judged_texts if text not in self._names]
        if unused:
            raise SettingsError(
                f"The template of rubric '{rubric.name}' does not use '{unused[0]}', so that the judge would not see what it "
                f"grades. Write {{{{ {unused[0]} }}}} where the text should stand."
            )
        roles = [role for role, _ in self._templates]
        if prompt.system and "system" in roles:
            raise SettingsError(
                f"Rubric '{rubric.name}' has a system message of its own: leave out `judge.prompt.system`."
            )
        if self.format == "completion" and roles != ["user"]:
            raise SettingsError(
                f"Rubric '{rubric.name}' has several messages, which plain text has not: leave out `judge.prompt.format=completion`."
            )

    @cached_property
    def run(self) -> JudgeRun:
        """Facts about the run, part of its specification."""
        baseline = self._baseline
        with_criteria = self._rubric.kind == "criteria"
        return JudgeRun(
            rubric=rubric_facts(self._rubric),
            judged=self._judged.identity,
            baseline=None if baseline is None else baseline.identity,
            criteria=digest(
                [f"{s.id} {s.fields['points']} {s.fields['criteria']}" for s in self._samples]
            )
            if with_criteria
            else None,
            judge_repeats=self._judge_repeats,
            parts=self._parts,
        )

    @cached_property
    def identity(self) -> BenchmarkIdentity:
        """Exact identity of the judged answers and the rubric."""
        judged = self._judged.identity
        return BenchmarkIdentity(
            name=self.name,
            version=self.version,
            source=f"answers/{judged.answer_set_id}" if judged else "self-test",
            source_revision=judged.shards
            if judged
            else digest([a.answer for a in self._judged.answers]),
            split="answers",
            limit=self._limit,
            parameters={"judge_run": self.run.model_dump(mode="json")},
        )

    @cached_property
    def prompt_identity(self) -> PromptIdentity:
        """Exact identity of the prompts."""
        return PromptIdentity(
            format=self.format,
            template=self._rubric.template,
            n_shots=0,
            system=self._prompt.system,
            **(chat_settings(self._prompt) if self.format == "chat" else {}),
        )

    @property
    def sampling(self) -> SamplingParams:
        """Greedy decoding, with room for the longest verdict."""
        criteria = max((s.fields["count"] for s in self._samples), default=1)
        return SamplingParams(
            temperature=0.0, max_tokens=most_tokens(self._rubric, max(1, criteria))
        )

    def samples(self) -> Sequence[Sample]:
        """Return the questions, with the limit applied."""
        return self._samples

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the rubric's template, filled with the answer."""
        messages: tuple[Message, ...] = sample.fields[PROMPT]
        system = self._prompt.system
        if self.format == "completion":
            return "\n\n".join(filter(None, (system, messages[0]["content"]))) + "\n"
        return (*system_turn(system), *messages)

    @property
    def _parts(self) -> int:
        return 2 if self._rubric.kind == "pairwise" else 1

    @cached_property
    def _samples(self) -> list[Sample]:
        by_sample: dict[str, list[JudgedAnswer]] = {}
        for answer in self._judged.answers:
            by_sample.setdefault(answer.sample_id, []).append(answer)
        baseline = (
            {(a.sample_id, a.repeat): a for a in self._baseline.answers} if self._baseline else {}
        )
        repeats = self._judged.identity.repeats if self._judged.identity else 1
        samples = []
        alone = 0
        for answers in by_sample.values():
            known = {answer.repeat: answer for answer in answers}
            if self._baseline is not None and not any(
                (a.sample_id, r) in baseline for r, a in known.items()
            ):
                alone += 1
                continue
            samples.append(self._sample(known, baseline, repeats))
        if alone:
            logger.warning(
                "%s: %d questions have no answer of the baseline, and are left out",
                self.name,
                alone,
            )
        chosen = spread(samples, self._limit)
        if not any(part.error is None for sample in chosen for part in (sample, *sample.by_repeat)):
            reason = chosen[0].error if chosen else "no question has answers of both sides"
            raise SettingsError(f"{self.name}: there is nothing to judge: {reason}")
        return chosen

    def _sample(
        self,
        answers: Mapping[int, JudgedAnswer],
        baseline: Mapping[tuple[str, int], JudgedAnswer],
        repeats: int,
    ) -> Sample:
        """Return the sample of a question, with one for each of the run's repeats."""
        first = answers[min(answers)]
        variants: list[Sample] = []
        for repeat in range(repeats):
            answer = answers.get(repeat) or replace(
                first, repeat=repeat, answer="", error=f"{NO_ANSWER} {repeat} to judge."
            )
            other = baseline.get((answer.sample_id, repeat))
            parts = [self._variant(answer, other, part) for part in range(self._parts)]
            variants += parts * self._judge_repeats
        return (
            variants[0] if len(variants) == 1 else replace(variants[0], by_repeat=tuple(variants))
        )

    def _variant(self, answer: JudgedAnswer, other: JudgedAnswer | None, part: int) -> Sample:
        rubric, error = self._rubric, answer.error
        if rubric.needs_reference and answer.reference is None and error is None:
            error = f"Rubric '{rubric.name}' compares with a reference answer, and this question has none."
        if rubric.kind == "pairwise":
            error = error or (NO_BASELINE if other is None else other.error)
        criteria = self._criteria.of(answer) if rubric.kind == "criteria" else ()
        prompt = () if error else self._prompt_messages(answer, other, part, criteria)
        return Sample(
            id=answer.sample_id,
            index=answer.index,
            target=target_of(criteria, answer) if criteria else answer.reference or "",
            fields={
                PROMPT: prompt,
                "criteria": numbered(criteria),
                "points": points_text(criteria),
                "count": len(criteria),
            },
            subset=answer.subset,
            question=answer.question,
            doc={"sample_id": answer.sample_id},
            structure=structure_of(rubric, len(criteria)),
            error=error,
        )

    def _prompt_messages(
        self, answer: JudgedAnswer, other: JudgedAnswer | None, part: int, criteria: Criteria
    ) -> tuple[Message, ...]:
        rubric = self._rubric
        texts = {QUESTION: answer.question}
        if answer.reference is not None:
            texts[REFERENCE] = answer.reference
        if other is not None:
            pair = (answer.answer, other.answer)
            texts |= {FIRST: pair[part], SECOND: pair[1 - part]}
        else:
            texts[ANSWER] = answer.answer
        if CONVERSATION in self._names:
            texts[CONVERSATION] = answer.conversation
        if LAST_QUESTION in self._names:
            texts[LAST_QUESTION] = answer.last_question or answer.question
        if TRAJECTORY in self._names:
            texts[TRAJECTORY] = answer.trajectory or f"assistant: {answer.answer}"
        reply = "" if rubric.is_free else reply_text(rubric, len(criteria))
        shown = (
            fenced(texts)
            if rubric.fenced
            else {name: without_control_tokens(text) for name, text in texts.items()}
        )
        values: dict[str, Any] = {
            REFERENCE: None,
            **shown,
            TURNS: [
                {
                    name: None if text is None else without_control_tokens(text)
                    for name, text in asdict(turn).items()
                }
                for turn in answer.turns
            ],
            REPLY: reply,
            "criteria": without_control_tokens(numbered(criteria)),
        }
        try:
            messages = [
                {"role": role, "content": template.render(values).strip()}
                for role, template in self._templates
            ]
        except TemplateValueError as error:
            raise SettingsError(f"Sample '{answer.sample_id}': {error}.") from error
        if reply and REPLY not in self._names:
            messages[-1]["content"] += f"\n\n{reply}"
        return tuple(messages)


def check_sides(rubric: Rubric, *, compares: bool) -> None:
    """Raise `SettingsError` for a rubric for pairs without a baseline, and for a baseline without such a rubric."""
    if (rubric.kind == "pairwise") != compares:
        raise SettingsError(
            f"Rubric '{rubric.name}' grades one answer at a time: leave out `judge.baseline`, or use `judge.rubric=pairwise`."
            if compares
            else f"Rubric '{rubric.name}' compares two answers: give the other side with `judge.baseline`."
        )


def check_prompt(prompt: PromptSettings) -> None:
    """Raise `SettingsError` for prompt settings that a judge cannot have."""
    if prompt.truncate:
        raise SettingsError(
            "A judge must see whole answers: leave out `truncate`. A prompt that does not fit into the judge's context fails."
        )
    if prompt.n_shots:
        raise SettingsError("Rubrics have no worked examples: leave out `judge.prompt.n_shots`.")
