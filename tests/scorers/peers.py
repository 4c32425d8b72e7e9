"""Scores and prompts of the peers' own code, for `test_peers.py`. Runs in the environment .peers, and imports nothing of regrade.

Reads a JSON document from stdin, and prints its answer: for each request a value, in order. What the peers import beside their scoring code, such
as the clients of a hundred models, is replaced by empty modules.
"""

import asyncio
import importlib
import json
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


class _Empty(ModuleType):
    """A module that has any name, each of which does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: _Empty(name)


def _without(*names: str) -> None:
    for name in names:
        sys.modules[name] = _Empty(name)


def _package(name: str) -> None:
    """Let modules of a package be imported without its `__init__`."""
    parent = importlib.import_module(name.rpartition(".")[0])
    found = ModuleType(name)
    found.__path__ = [f"{parent.__path__[0]}/{name.rpartition('.')[2]}"]
    sys.modules[name] = found


def lmms_eval(task: str) -> Any:
    """Return the code of a task of lmms-eval."""
    if "lmms_eval.tasks" not in sys.modules:
        _without("loguru", "Levenshtein", "evaluate", "sacrebleu", "lmms_eval.llm_judge")
        _without("lmms_eval.verifiers", "lmms_eval.verifiers.openai")
        _without("lmms_eval.filters.extraction", "lmms_eval.filters.transformation")
        vars(sys.modules["lmms_eval.filters.extraction"])["ExtendedRegexFilter"] = object
        vars(sys.modules["lmms_eval.filters.transformation"])["MapFilter"] = object
        _package("lmms_eval.tasks")
    return importlib.import_module(f"lmms_eval.tasks.{task}.utils")


def chartqa(answer: str, target: list[str]) -> float:
    return float(lmms_eval("chartqa").relaxed_correctness(answer, target[0]))


def docvqa(answer: str, target: list[str]) -> float:
    lmms_eval("docvqa")
    metrics = importlib.import_module("lmms_eval.api.metrics")
    return float(metrics.anls(target, [answer])["anls"])


def docvqa_of_inspect(answer: str, target: list[str]) -> float:
    _without("inspect_evals.constants", "inspect_evals.metadata", "inspect_evals.utils")
    _without("inspect_evals.utils.huggingface")
    vars(sys.modules["inspect_evals.constants"])["INSPECT_EVALS_CACHE_PATH"] = Path()
    found = importlib.import_module("inspect_evals.docvqa.docvqa")
    state = SimpleNamespace(output=SimpleNamespace(completion=answer))
    score = asyncio.run(found.docvqa_scorer()(state, SimpleNamespace(target=target)))
    return 0.0 if score.value == "I" else float(score.value)


def anls(answer: str, target: list[str]) -> float:
    return float(importlib.import_module("anls").anls_score(answer, target, 0.5))


def ocrbench(answer: str, target: list[str], dataset: str) -> float:
    doc = {"answer": target, "dataset": dataset, "question_type": "x"}
    result = lmms_eval("ocrbench").ocrbench_process_results(doc, [answer])
    return float(result["ocrbench_accuracy"]["score"])


def mmmu(answer: str, target: str, choices: list[str]) -> float:
    """0 where no letter can be read: the authors draw one."""
    code = lmms_eval("mmmu")
    if not choices:
        return float(code.eval_open(target, code.parse_open_response(answer)))
    index, letters = code.get_multi_choice_info(choices)
    drawn = random.choice
    random.choice = lambda _: ""
    try:
        found = code.parse_multi_choice_response(answer, letters, index)
    finally:
        random.choice = drawn
    return float(code.eval_multi_choice(target, found))


def mathvista(extraction: str, row: dict[str, Any]) -> float:
    """The comparison of the published pipeline, with an answer that was extracted."""
    code = _mathvista()
    kept = ("choices", "question_type", "answer_type", "precision")
    found = code.normalize_extracted_answer(extraction, *(row[name] for name in kept))
    return float(code.safe_equal(found, row["answer"]))


def _mathvista() -> Any:
    lmms_eval("docvqa")
    found = importlib.import_module("lmms_eval.tasks.mathvista.mathvista_evals")
    evaluator = found.MathVistaEvaluator.__new__(found.MathVistaEvaluator)
    # Of several choices the nearest one, of which only a letter or an equal text is asked here.
    evaluator.get_most_similar = lambda text, choices: text if text in choices else choices[0]
    return evaluator


def realworldqa(answer: str, target: str) -> float:
    result = lmms_eval("realworldqa").realworldqa_process_results({"answer": target}, [answer])
    return float(result["exact_match"])


def prompt(task: str, row: dict[str, Any], settings: Any) -> str:
    """The prompt of a task of lmms-eval."""
    folder = task.partition(".")[0]
    function = {"mmmu_pro": "mmmu_pro_doc_to_text"}.get(folder, f"{folder}_doc_to_text")
    return str(getattr(lmms_eval(folder), function)(row, settings))


def bfcl(category: str, functions: list[Any], calls: list[Any], right: list[Any]) -> float:
    """BFCL's check of syntax trees, of a model that takes tools: dots in names are underscores."""
    if "bfcl_eval.constants.model_config" not in sys.modules:
        config = ModuleType("bfcl_eval.constants.model_config")
        model = SimpleNamespace(underscore_to_dot=True)
        config.MODEL_CONFIG_MAPPING = {"model": model}
        sys.modules["bfcl_eval.constants.model_config"] = config
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    language = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    checked = checker.ast_checker(functions, calls, right, language, category, "model")
    return float(checked["valid"])


def bfcl_tools(functions: list[Any]) -> list[Any]:
    """Functions as BFCL gives them to models that take tools."""
    parsers = "bfcl_eval.model_handler.parser"
    languages = (f"{parsers}.{name}_parser" for name in ("java", "js", "json", "xml"))
    _without(parsers, "bfcl_eval.utils", *languages)
    utils = importlib.import_module("bfcl_eval.model_handler.utils")
    style = importlib.import_module("bfcl_eval.constants.enums").ModelStyle.OPENAI_COMPLETIONS
    return list(utils.convert_to_tool(functions, utils.GORILLA_TO_OPENAPI, style))


def main() -> None:
    requests = json.load(sys.stdin)
    stdout, sys.stdout = sys.stdout, sys.stderr
    values = [globals()[name](*arguments) for name, *arguments in requests]
    stdout.write(json.dumps(values))


if __name__ == "__main__":
    main()
