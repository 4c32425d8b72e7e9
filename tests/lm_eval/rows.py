"""Hand-made rows in the columns of the Hub datasets that tasks read, with what real ones may hold beyond plain text."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from datasets import Dataset

from regrade.lm_eval.index import TaskEntry, entries_of
from regrade.lm_eval.package import tasks_folder

Rows = list[dict[str, Any]]
Splits = Mapping[str, Rows]
COUNT = 7
"""Rows of a split; more where a task draws worked examples."""


def _splits(make: Callable[[int], dict[str, Any]], *names: str, count: int = COUNT) -> Splits:
    """Return splits whose rows differ."""
    return {
        name: [make(place * 100 + number) for number in range(count)]
        for place, name in enumerate(names)
    }


def _table(
    columns: str, values: Callable[[int], tuple[Any, ...]], *names: str
) -> Callable[[str | None], Splits]:
    """Return splits whose rows have these columns, for whatever configuration."""
    header = columns.split()
    return lambda _: _splits(lambda n: dict(zip(header, values(n), strict=True)), *names)


def _gsm8k(n: int) -> dict[str, Any]:
    return {
        "question": f"Ann has {n} apples & buys {n * 1000:,} more.\nHow many?",
        "answer": f"{n} + {n * 1000} = <<{n}+{n * 1000}={n * 1001}>>{n * 1001:,}\n#### {n * 1001:,}",
    }


def _mmlu(n: int) -> dict[str, Any]:
    return {
        "question": f" Which is larger than {n}?\nThink. ",
        "subject": "virology",
        "choices": [f"{n - 1}", "None", f" {n + 1}", "½ ∞"],
        "answer": n % 4,
    }


def _arc(n: int) -> dict[str, Any]:
    labels = ["1", "2", "3"] if n % 3 == 0 else list("ABCD")
    texts = [f"{n - 1}", f"{n + 1} naïve", "zéro", "less than nothing"][: len(labels)]
    return {
        "id": f"Q{n}",
        "question": f"Which is larger than {n}?",
        "choices": {"text": texts, "label": labels},
        "answerKey": labels[n % len(labels)],
    }


def _hellaswag(n: int) -> dict[str, Any]:
    return {
        "ind": n,
        "activity_label": "Cooking",
        "ctx_a": f"[header] A man has {n} eggs.",
        "ctx_b": "he",
        "ctx": f"A man has {n} eggs. he",
        "endings": [
            "breaks them [step] gently",
            "sings  twice",
            "flies to the moon",
            "naïvely eats",
        ],
        "source_id": "x",
        "split": "val",
        "split_type": "indomain",
        "label": str(n % 4),
    }


def _winogrande(n: int) -> dict[str, Any]:
    return {
        "sentence": f"Cup {n} did not fit in the box because the _ was too big.",
        "option1": "cup",
        "option2": "box",
        "answer": str(1 + n % 2),
    }


def _truthful(n: int) -> dict[str, Any]:
    return {
        "question": f"Is {n} lucky?",
        "mc1_targets": {"choices": ["No", "Yes", "Maybe so"], "labels": [1, 0, 0]},
        "mc2_targets": {"choices": ["No", "Not at all", "Yes", "Maybe"], "labels": [1, 1, 0, 0]},
    }


def _ifeval(n: int) -> dict[str, Any]:
    none = {"num_sentences": None, "relation": None, "num_words": None}
    return {
        "key": 1000 + n,
        "prompt": f"Write {n} words. No commas.",
        "instruction_id_list": [
            "punctuation:no_comma",
            "length_constraints:number_words",
            "length_constraints:number_sentences",
        ],
        "kwargs": [
            none,
            {**none, "relation": "at least", "num_words": 3 + n % 5},
            {**none, "relation": "less than", "num_sentences": 1 + n % 3},
        ],
    }


def _mmlu_pro(n: int) -> dict[str, Any]:
    return {
        "question_id": n,
        "question": f"What is {n}+1?",
        "options": [str(n + 1 + place) for place in range(3 + n % 8)],
        "answer": "A",
        "answer_index": 0,
        "cot_content": "A: Let's think step by step. The answer is (A).",
        "category": ["biology", "math"][n % 2],
        "src": "x",
    }


def _drop(n: int) -> dict[str, Any]:
    date = {"day": "", "month": "", "year": ""}
    spans = ["Tom", "the cat"] if n % 2 else []
    number = "" if n % 2 else str(n)
    return {
        "section_id": "s",
        "query_id": str(n),
        "passage": f"Team A scored {n} points, with Tom and the cat.",
        "question": "How many points, or who?",
        "answer": {"number": number, "date": date, "spans": spans, "worker_id": "", "hit_id": ""},
        "validated_answers": {
            "number": [number, str(n + 1)],
            "date": [date, date],
            "spans": [spans, []],
            "worker_id": ["", ""],
            "hit_id": ["", ""],
        },
    }


def _trivia(n: int) -> dict[str, Any]:
    aliases = ["Paris", "paris city", "Paris, France"] if n % 3 else ["18"]
    return {
        "question": f"Capital {n}",
        "question_id": f"q{n}",
        "answer": {
            "value": aliases[0],
            "aliases": aliases,
            "normalized_aliases": [alias.lower() for alias in aliases],
        },
    }


def _cb(n: int) -> dict[str, Any]:
    return {"premise": f"It is {n}.", "hypothesis": f"{n} it is", "idx": n, "label": n % 3}


def _copa(n: int) -> dict[str, Any]:
    return {
        "premise": f"The man slept {n} hours.",
        "choice1": "He was tired.",
        "choice2": "He woke up.",
        "question": "cause" if n % 2 else "effect",
        "idx": n,
        "label": n % 2,
    }


def _glue_pair(n: int) -> dict[str, Any]:
    return {
        "sentence1": f"One {n}.",
        "sentence2": "Another one.",
        "question": f"Where is {n}?",
        "sentence": f"It is at {n}.",
        "label": n % 2,
        "idx": n,
    }


def _logiqa(n: int) -> dict[str, Any]:
    return {
        "label": " " + "abcd"[n % 4],
        "context": f"All {n} are even.",
        "question": "What follows?",
        "options": ["None", "All are odd", f"{n} is even", "Nothing"],
    }


def _race(n: int) -> dict[str, Any]:
    options = ["red", "blue", f"{n} green", "none"]
    problems = [
        {"question": "What is  _  .", "answer": "B", "options": options},
        {"question": f"Why {n}?", "answer": "ABCD"[n % 4], "options": options},
    ]
    return {"article": f"An article on {n}.", "problems": repr(problems)}


def _wsc(n: int) -> dict[str, Any]:
    text = f"Tom told Bob that he  won {n} prizes."
    return {
        "text": text,
        "pronoun": "he",
        "pronoun_loc": text.replace("  ", " ").index("he won"),
        "quote": "he won",
        "quote_loc": 0,
        "options": ["Tom", "The man"],
        "label": n % 2,
        "source": "x",
    }


def _eq(n: int) -> dict[str, Any]:
    feelings = {f"emotion{k}": name for k, name in enumerate(("Joy", "Fear", "Pride", "Shame"), 1)}
    scores = {f"emotion{k}_score": n % 10 for k in range(1, 5)}
    return {"prompt": f"Rate {n}.", "reference_answer_fullscale": repr(feelings | scores)}


def _belebele(n: int) -> dict[str, Any]:
    return {
        "flores_passage": f"A passage of {n}.",
        "question": f"What of {n}? ",
        **{f"mc_answer{k}": f"answer {k}" for k in range(1, 5)},
        "correct_answer_num": str(1 + n % 4),
    }


_TRAIN_TEST = ("train", "test")
_TRAIN_VALIDATION = ("train", "validation")
_ALL = ("train", "validation", "test")

_SUPER_GLUE: Mapping[str | None, Callable[[str | None], Splits]] = {
    "boolq": _table(
        "question passage idx label",
        lambda n: (f"is {n} even", f"On {n}.", n, n % 2),
        *_TRAIN_VALIDATION,
    ),
    "copa": lambda _: _splits(_copa, *_TRAIN_VALIDATION),
    "cb": lambda _: _splits(_cb, *_TRAIN_VALIDATION),
    "rte": lambda _: _splits(lambda n: {**_cb(n), "label": n % 2}, *_TRAIN_VALIDATION),
    "wic": _table(
        "word sentence1 sentence2 start1 end1 idx label",
        lambda n: ("bank", f"The bank of {n}.", "A bank.", 4, 8, n, n % 2),
        *_TRAIN_VALIDATION,
    ),
    "multirc": _table(
        "paragraph question answer label",
        lambda n: (f"On {n}.", "Which?", f"the {n}", n % 2),
        *_TRAIN_VALIDATION,
    ),
}
_DATASETS: Mapping[str, Callable[[str | None], Splits]] = {
    "openai/gsm8k": lambda _: _splits(_gsm8k, *_TRAIN_TEST, count=9),
    "cais/mmlu": lambda name: {
        split: [{**row, "subject": name} for row in rows]
        for split, rows in _splits(_mmlu, "dev", "test", count=5).items()
    },
    "allenai/ai2_arc": lambda _: _splits(_arc, *_ALL, count=10),
    "Rowan/hellaswag": lambda _: _splits(_hellaswag, *_TRAIN_VALIDATION),
    "allenai/winogrande": lambda _: _splits(_winogrande, *_TRAIN_VALIDATION),
    "truthfulqa/truthful_qa": lambda _: _splits(_truthful, "validation"),
    "google/IFEval": lambda _: _splits(_ifeval, "train"),
    "EleutherAI/wikitext_document_level": lambda _: _splits(
        lambda n: {"page": f" = Page {n} = \n The cat , number {n} , sat on 1 @,@ 000 mats . \n"},
        *_ALL,
    ),
    "NeelNanda/pile-10k": lambda _: _splits(
        lambda n: {"text": f"Text {n}\n\nof several lines, {'é' * n}", "meta": {"set": "x"}},
        "train",
    ),
    "EleutherAI/lambada_openai": _table(
        "text domain",
        lambda n: (f"He said hello {n} times and then goodbye to the old cat", None),
        "test",
    ),
    "TIGER-Lab/MMLU-Pro": lambda _: _splits(_mmlu_pro, "validation", "test", count=14),
    "EleutherAI/drop": lambda _: _splits(_drop, *_TRAIN_VALIDATION),
    "SaylorTwift/bbh": lambda _: _splits(
        lambda n: {"input": f"not ( True ) and ( False ) {n} is", "target": str(n % 2 == 0)}, "test"
    ),
    "mandarjoshi/trivia_qa": lambda _: _splits(_trivia, *_TRAIN_VALIDATION),
    "google-research-datasets/nq_open": lambda _: _splits(
        lambda n: {"question": f"who was {n}", "answer": ["Paris", f"the {n}"][: 1 + n % 2]},
        *_TRAIN_VALIDATION,
    ),
    "stanfordnlp/web_questions": _table(
        "url question answers",
        lambda n: ("u", f"who is {n}", ["Tom", f"Ann {n}", "Ann"][: 1 + n % 3]),
        *_TRAIN_TEST,
    ),
    "baber/piqa": lambda _: _splits(
        lambda n: {"goal": f"Open {n}", "sol1": "pull it", "sol2": f"push {n}", "label": n % 2},
        *_TRAIN_VALIDATION,
    ),
    "allenai/openbookqa": lambda _: _splits(
        lambda n: {**_arc(n), "question_stem": f"The {n} is"}, *_ALL
    ),
    "allenai/sciq": _table(
        "question support distractor1 distractor2 distractor3 correct_answer",
        lambda n: (f"What {n}?", "" if n % 2 else f" It is {n}.", "a", "bb", "ccc", f"{n}"),
        *_ALL,
    ),
    "aps/super_glue": lambda name: _SUPER_GLUE[name](name),
    "nyu-mll/glue": lambda _: _splits(_glue_pair, *_TRAIN_VALIDATION),
    "tau/commonsense_qa": _table(
        "id question choices answerKey",
        lambda n: (
            str(n),
            f"Where is {n}? ",
            {"label": list("ABCDE"), "text": ["a", "b", "c", "d", f"{n}"]},
            "ABCDE"[n % 5],
        ),
        *_TRAIN_VALIDATION,
    ),
    "facebook/anli": _table(
        "premise hypothesis label reason",
        lambda n: (f"It is {n}.", "It is.", n % 3, None),
        "train_r1",
        "dev_r1",
        "test_r1",
    ),
    "EleutherAI/race": lambda _: _splits(_race, "test"),
    "EleutherAI/logiqa": lambda _: _splits(_logiqa, *_ALL),
    "EleutherAI/asdiv": lambda _: _splits(
        lambda n: {"body": f"Ann has {n}.", "question": "How many?", "answer": f"{n} (apples)"},
        "validation",
    ),
    "json": lambda _: _splits(
        lambda n: {"context": f"Q: What is {n} plus 1?\n\nA:", "completion": f" {n + 1}"},
        "validation",
    ),
    "jannalu/crows_pairs_multilingual": lambda _: _splits(
        lambda n: {"sent_more": f"They are {n}.", "sent_less": f"We are {n}.", "bias_type": "age"},
        "test",
    ),
    "cambridgeltl/xcopa": lambda _: _splits(_copa, "validation", "test"),
    "Muennighoff/xwinograd": lambda _: _splits(_winogrande, "test"),
    "lighteval/winograd_wsc": lambda _: _splits(_wsc, "test"),
    "nyu-mll/blimp": lambda _: _splits(
        lambda n: {"sentence_good": f"Cats sleep {n}.", "sentence_bad": f"Cats sleeps {n}."},
        "train",
    ),
    "Maxwell-Jia/AIME_2024": _table(
        "ID Problem Solution Answer",
        lambda n: (f"2024-{n}", f"Find {n}.", "x", 18 + n % 2),
        "train",
    ),
    "Muennighoff/babi": _table(
        "passage question answer task",
        lambda n: (f"Tom went {n}.\n", "Where?", "Paris", 1),
        "train",
        "valid",
        "test",
    ),
    "EleutherAI/unscramble": lambda _: _splits(
        lambda n: {"context": f"Unscramble: sirap {n}\n=", "completion": "Paris"}, "validation"
    ),
    "facebook/belebele": lambda _: _splits(_belebele, "test"),
    "allenai/swag": lambda _: _splits(
        lambda n: {
            "startphrase": f"He runs {n}",
            **{f"ending{k}": f"and {k} ends." for k in range(4)},
            "label": n % 4,
        },
        *_TRAIN_VALIDATION,
    ),
    "regisss/math_qa": _table(
        "Problem options correct",
        lambda n: (f"what is {n} ?", f"a ) {n} , b ) 2 , c ) 3 , d ) 4 , e ) none", "abcde"[n % 5]),
        *_ALL,
    ),
    "bigbio/pubmed_qa": _table(
        "CONTEXTS QUESTION final_decision",
        lambda n: ([f"Of {n}.", "More."], f"Is {n}?", ["yes", "no", "maybe"][n % 3]),
        *_ALL,
    ),
    "EleutherAI/headqa": _table(
        "qtext ra answers",
        lambda n: (f"What of {n}?", 1 + n % 4, [{"aid": k, "atext": f"a{k}"} for k in range(1, 5)]),
        *_ALL,
    ),
    "EleutherAI/hendrycks_ethics": _table(
        "label input scenario excuse activity baseline",
        lambda n: (n % 2, f"I did {n}.", f"Do {n}.", "But no. ", f"I ran {n}.", f"I sat {n}."),
        *_TRAIN_TEST,
    ),
    "skg/toxigen-data": lambda _: _splits(
        lambda n: {"text": f"all {n}", "toxicity_ai": float(n % 5), "toxicity_human": 3.0},
        *_TRAIN_TEST,
    ),
    "juletxara/mgsm": _table(
        "question answer answer_number",
        lambda n: (f"Ann has {n}.", None if n >= 100 else f"Step-by-Step Answer: {n}", 18 + n % 2),
        *_TRAIN_TEST,
    ),
    "pbevan11/EQ-Bench": lambda _: _splits(_eq, "validation"),
}


@cache
def splits(path: str, name: str | None) -> Mapping[str, Dataset]:
    """Return the splits of a dataset."""
    return {split: Dataset.from_list(rows) for split, rows in _DATASETS[path](name).items()}


def load_dataset(path: str, name: str | None = None, **_: object) -> Mapping[str, Dataset]:
    """Stand in for `datasets.load_dataset`."""
    return splits(path, name)


def datasets(path: str, name: str | None, _: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stand in for `regrade.lm_eval.opened.Datasets`."""
    return splits(path, name)


FOLDERS = (
    "gsm8k", "mmlu", "mmlu_pro", "arc", "hellaswag", "winogrande", "truthfulqa", "ifeval", "wikitext", "pile_10k",
    "lambada", "drop", "bbh", "triviaqa", "nq_open", "webqs", "piqa", "openbookqa", "sciq", "super_glue", "glue",
    "commonsense_qa", "anli", "race", "logiqa", "asdiv", "arithmetic", "crows_pairs", "xcopa", "xwinograd", "wsc273",
    "blimp", "aime", "babi", "unscramble", "belebele", "swag", "mathqa", "pubmedqa", "headqa", "hendrycks_ethics",
    "toxigen", "mgsm", "eq_bench", "humaneval", "squad_completion", "mmmu", "ruler", "leaderboard",
)  # fmt: skip
"""Folders of lm_eval with these tasks, and with tasks that cannot be run."""


@cache
def tasks_of_folders() -> Mapping[str, TaskEntry]:
    """Return the index of `FOLDERS`."""
    return {
        entry.name: entry for folder in FOLDERS for entry in entries_of(tasks_folder() / folder)
    }


STORED: Sequence[str] = (
    "gsm8k_cot_self_consistency", "mmlu_stem", "arc_challenge@chat", "winogrande", "wikitext", "lambada_openai",
)  # fmt: skip
"""Tasks of all kinds of requests; `@chat` asks in chats. Their numbers are compared from stored answers."""
QUICK: Sequence[str] = (
    "gsm8k", "gsm8k_cot_llama@chat", "mmlu_pro_math", "hellaswag", "truthfulqa_mc2",
    "bbh_cot_zeroshot_boolean_expressions", "triviaqa", "mrpc",
)  # fmt: skip
"""Tasks with other filters and metrics than these."""
SLOW: Sequence[str] = (
    "gsm8k@chat", "gsm8k_cot", "gsm8k_cot_zeroshot", "mmlu_virology", "mmlu_virology_generative@chat",
    "mmlu_virology_continuation", "arc_challenge", "arc_challenge_chat@chat", "arc_easy", "winogrande@chat",
    "truthfulqa_mc1", "ifeval@chat", "pile_10k", "drop", "nq_open", "webqs", "piqa", "openbookqa", "sciq", "boolq",
    "copa", "cb", "wic", "multirc", "sglue_rte", "cola", "qnli", "sst2", "commonsense_qa", "anli_r1", "race",
    "logiqa", "asdiv", "arithmetic_1dc", "crows_pairs_english", "xcopa_et", "xwinograd_en", "wsc273",
    "blimp_adjunct_island", "aime24", "babi", "anagrams1", "belebele_eng_Latn", "swag", "mathqa", "pubmedqa",
    "headqa_en", "ethics_cm", "ethics_utilitarianism", "toxigen", "mgsm_direct_en", "eq_bench",
)  # fmt: skip
"""Further tasks."""
