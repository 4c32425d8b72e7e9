from pathlib import Path

from tests.command_line import regrade
from tests.exchange.importing.test_lm_eval import TIME, results, sample
from tests.exchange.importing.writing import jsonl


def cut_run(folder: Path) -> Path:
    results(folder)
    return jsonl(folder / f"samples_sums_{TIME}.jsonl", sample(1, "1", 1.0), sample(2, "2", 1.0))


def test_what_cannot_be_imported_is_one_line_and_leaves_nothing(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", {"prompt": "Why?", "answers": 3})
    for arguments, says in (
        ((path, "--model", "m", "--benchmark", "b"), "row 0: 'answers' should be a text, found 3"),
        ((tmp_path / "nowhere",), "does not exist"),
        ((path, "--format", "csv"), "csv"),
        ((), "PATHS"),
    ):
        ran = regrade("import", *arguments, "--answers", tmp_path / "answers")
        assert ran.code == 2, ran.err
        assert "Traceback" not in ran.err
        assert says in " ".join(ran.err.split())
        assert not (tmp_path / "answers").exists()


def test_a_file_that_cannot_be_read_ends_a_strict_import_and_no_other(tmp_path: Path):
    folder = tmp_path / "runs"
    cut_run(folder)
    (folder / "broken.jsonl").write_text("{")
    arguments = ("import", folder, "--answers", tmp_path / "answers")

    strict = regrade(*arguments, "--strict")
    assert (strict.code, (tmp_path / "answers").exists()) == (2, False)
    assert regrade(*arguments, "--quiet").code == 1
    assert (tmp_path / "answers").exists()


def test_fields_that_are_not_imported_are_one_line(tmp_path: Path):
    results(tmp_path)
    rows = [sample(n, "1", 1.0, **{f"field_{n}": n}) for n in range(1, 31)]
    path = jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", *rows)
    ran = regrade("import", path, "--answers", tmp_path / "answers")
    [line] = [line for line in ran.err.splitlines() if "not imported" in line]
    assert line.startswith("fields not imported: lm-eval: arguments.gen_args_0.arg_1, doc.answer, ")
    assert line.endswith(" and 12 more")
    again = regrade("import", path, "--answers", tmp_path / "answers", "--json").document
    assert len(again["fields_not_imported"]["lm-eval"]) == 32


def test_answers_without_a_usable_target_are_counted_and_a_new_name_is_told(tmp_path: Path):
    path = jsonl(
        tmp_path / "a.jsonl",
        *({"a": "A", "gold": gold, "options": ["x", "y"]} for gold in ("A", "(B)", "Z", None)),
    )
    options = ("--column.text", "a", "--column.target", "gold", "--column.choices", "options")
    arguments = ("import", path, *options, "--model", "m", "--benchmark", "org/B")
    ran = regrade(*arguments, "--answers", tmp_path / "answers")
    assert ran.code == 0, ran.err
    assert "named org-b here: the benchmark org/B\n" in ran.err
    assert "without a usable target: 2 of 4 answers in" in ran.err
    assert "'Z' of question 2" in ran.err
    ran = regrade("import", path, *options[:2], *arguments[-4:], "--answers", tmp_path / "others")
    assert "4 of 4 answers in" in ran.err
    assert ": name their column with `--column.target`\n" in ran.err


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path):
    results(tmp_path, model_name="evil\x1b[31m[bold]model")
    path = jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", sample(1, "1", 1.0))
    ran = regrade("import", path, "--answers", tmp_path / "answers")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    assert "[bold]model" in ran.out
