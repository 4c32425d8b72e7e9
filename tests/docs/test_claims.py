"""Each paragraph, item and row of docs/security.md and docs/code.md names the tests that show what it says.

A part or a sentence more, or a test that is gone, fails: read the part again, and name the test of what is new.
"""

import re

import pytest
from prefect.settings.models.results import ResultsSettings

from regrade.processes.sandbox.self_test import _PROBES
from regrade.scorers.code import LIMITS
from tests.command_line import ROOT
from tests.processes.sandbox.hostile import CHEATS, PROGRAMS

SECURITY = {
    "| pages in a browser": (
        "0 test_a_page_of_another_origin_neither_reads_nor_changes_prefect "
        "test_a_page_of_another_origin_neither_reads_nor_changes_mlflow"
    ),
    "| people and programs with Prefect's login": (
        "4 test_a_worker_runs_no_shell_for_someone_who_can_write_to_the_server "
        "test_a_path_outside_of_the_folders_of_a_worker_is_refused"
    ),
    # Its client has no login, and writes.
    "| people and programs that reach MLflow": "1 test_nothing_in_a_text_runs_on_the_pages_of_mlflow",
    "| people who reach the viewer": (
        "2 test_beyond_loopback_a_token_is_needed test_nothing_can_be_written "
        "test_private_answers_are_read_with_a_token_that_no_page_shows"
    ),
    "| workers and flow runs": (
        "1 test_a_flow_run_is_not_root_and_reads_no_secret_of_the_stack test_a_command_of_the_worker_has_no_rights_of_root"
    ),
    "| engines (vLLM)": (
        "1 test_the_engine_gets_what_it_needs_and_no_credential test_the_token_of_the_hub_is_for_models_of_the_hub "
        "test_the_processes_of_an_engine_have_no_credential_in_their_environment"
    ),
    "| models with code of their own": (
        "0 test_a_worker_runs_code_of_a_model_only_if_its_machine_allows_it "
        "test_runs_bring_no_code_and_choose_no_credential_and_no_file_unless_the_machine_allows_it"
    ),
    "| CI jobs": "1 test_the_script_of_a_ci_job_says_regression_of_a_worse_model_only test_no_secret_is_written_into_a_job",
    "| checkpoint hooks": (
        "1 test_no_process_outlives_a_killed_owner test_no_evaluation_outlives_a_killed_training_whose_fork_lives_on"
    ),
    "| programs in answers": "0 test_no_hostile_program_does_what_it_tries",
    "| answer repositories, question files": (
        "0 test_no_pickle_in_a_file_is_ever_loaded test_nothing_in_the_file_runs_or_is_loaded_from_elsewhere "
        "test_a_shard_outside_of_its_folder_is_refused test_a_terminal_shows_markup_and_escape_codes_as_text"
    ),
    "| other users of the machine": (
        "0 test_passwords_are_made_once_and_only_we_can_read_them test_the_login_is_made_once_and_only_we_can_read_it "
        "test_postgres_lets_nobody_in_without_the_password_of_that_database"
    ),
    "**Pages.**": (
        "7 test_a_page_of_another_origin_is_refused_with_its_name test_a_foreign_host_is_refused_with_its_name "
        "test_no_page_elsewhere_frames_it_and_its_pages_load_no_pictures_from_elsewhere "
        "test_another_page_may_link_to_it_but_not_load_it_as_a_picture_or_script "
        "test_nothing_in_a_text_runs_on_the_pages_of_prefect test_nothing_in_a_text_runs_on_the_pages_of_mlflow "
        "test_a_server_of_ours_answers_no_other_page_no_other_host_and_nobody_without_the_login "
        "test_a_name_that_is_rebound_to_this_machine_is_refused"
    ),
    "**The viewer** (": (
        "4 test_nothing_can_be_written test_reading_changes_nothing_in_the_repository test_a_foreign_host_is_refused "
        "test_a_page_of_another_origin_is_refused test_every_page_forbids_scripts_frames_and_other_hosts "
        "test_beyond_loopback_a_token_is_needed test_nothing_is_served_without_a_port "
        "test_a_page_that_reaches_it_by_dns_rebinding_reads_nothing"
    ),
    "**Login.**": (
        "3 test_the_login_is_made_once_and_only_we_can_read_it test_make_ui_gets_the_same_variables_as_a_script "
        "test_docker_compose_refuses_to_start_without_a_password test_each_temporary_server_has_a_login_of_its_own"
    ),
    "**Workers run only what is installed": (
        "5 test_the_code_of_the_installed_project_is_accepted test_a_deployment_without_its_code_is_refused "
        "test_a_run_without_a_deployment_is_refused test_a_changed_pool_is_refused "
        "test_a_worker_runs_no_shell_for_someone_who_can_write_to_the_server test_the_points_of_a_sweep_are_checked_too"
    ),
    "Paths lie in the folders": (
        "3 test_a_path_outside_of_the_folders_of_a_worker_is_refused test_a_link_does_not_lead_out_of_the_folders "
        "test_runs_bring_no_code_and_choose_no_credential_and_no_file_unless_the_machine_allows_it "
        "test_names_addresses_and_paths_in_the_folders_are_accepted"
    ),
    "The MLflow server is the worker's own": "2 test_credentials_for_mlflow_go_to_the_server_of_the_worker_only",
    "Scorers, rubrics and tasks of": (
        "3 test_code_that_is_not_installed_needs_the_word_of_the_worker test_what_cannot_be_filled_in_is_refused "
        "test_a_task_asks_the_hub_for_no_code_where_the_worker_does_not_allow_it "
        "test_a_task_with_a_metric_of_the_hub_is_refused_where_the_worker_does_not_allow_it "
        "test_a_rubric_in_a_file_that_takes_too_much_is_refused_with_its_limit "
        "test_a_template_that_takes_all_memory_or_never_ends_is_refused_before_the_engine_renders_it"
    ),
    "`engine.extra` takes": (
        "3 test_an_engine_argument_that_is_not_known_to_run_no_code_is_refused "
        "test_an_engine_argument_with_numbers_and_choices_is_accepted "
        "test_a_worker_runs_code_of_a_model_only_if_its_machine_allows_it"
    ),
    "On the command line, nothing of this": "2 test_nothing_is_limited_on_the_command_line",
    "**Users.**": (
        "3 test_workers_run_only_what_is_installed_and_nothing_has_rights_of_root "
        "test_a_flow_run_is_not_root_and_reads_no_secret_of_the_stack "
        "test_a_python_that_the_user_cannot_reach_is_named_with_the_folder_and_its_owner"
    ),
    "**Engines** get only": (
        "2 test_the_engine_gets_what_it_needs_and_no_credential test_a_variable_that_the_list_lacks_can_be_named"
    ),
    "**Answers and files of others.**": (
        "9 test_no_text_of_a_model_is_searched_with_re "
        "test_the_notation_of_mathematical_answers_takes_linear_time_over_200_000_characters "
        "test_a_comparison_that_does_not_end_is_a_timeout_and_not_wrong "
        "test_an_answer_that_takes_too_long_is_a_timeout_and_the_others_are_scored "
        "test_what_re2_cannot_search_for_is_refused_and_never_searched_with_re "
        "test_no_pattern_takes_more_than_linear_time_over_200_000_characters "
        "test_sizes_that_the_manifest_makes_up_are_refused_before_anything_is_read "
        "test_a_folder_named_from_outside_is_an_error_and_no_path test_no_pattern_takes_more_than_linear_time "
        "test_no_pickle_in_a_file_is_ever_loaded "
        "test_a_row_with_more_than_the_memory_holds_is_decoded_in_a_child_process_only "
        "test_json_that_takes_many_times_its_size_in_memory_is_not_parsed "
        "test_a_hostile_text_is_shown_and_is_no_markup_on_any_page "
        "test_nothing_in_a_name_or_an_answer_breaks_out_of_the_page test_a_terminal_shows_markup_and_escape_codes_as_text "
        "test_an_answer_is_no_formula_in_a_spreadsheet_and_comes_back "
        "test_every_python_file_of_tasks_that_can_run_a_text_is_known "
        "test_a_task_whose_code_runs_parts_of_an_answer_is_refused"
    ),
    "**An answer at which a scorer fails**": (
        "4 test_an_answer_at_which_a_scorer_fails_costs_its_row test_changed_answers_are_scored "
        "test_an_answer_at_which_a_filter_never_ends_costs_its_row "
        "test_an_answer_that_ends_the_sandbox_of_its_tests_costs_one_verdict "
        "test_a_scorer_that_fails_at_all_answers_ends_the_scoring"
    ),
    "**Other users of the machine.**": (
        "2 test_passwords_are_made_once_and_only_we_can_read_them test_the_login_is_made_once_and_only_we_can_read_it "
        "test_no_other_user_reads_answers_that_are_not_published_yet "
        "test_the_cache_of_compiled_code_is_a_folder_that_no_other_user_made"
    ),
    "**CI.**": (
        "3 test_actions_are_pinned_and_inputs_reach_scripts_through_the_environment "
        "test_only_the_job_may_write_and_only_comments"
    ),
    "**Servers of models**": (
        "4 test_no_more_is_read_than_was_asked_for test_headers_of_megabytes_are_no_response "
        "test_a_redirect_is_an_error_that_names_the_place_and_nothing_of_it "
        "test_a_page_that_is_no_error_of_the_api_is_not_repeated"
    ),
    "**Programs in answers** run": (
        "7 test_no_hostile_program_does_what_it_tries test_a_sandbox_that_does_not_hold_runs_no_program "
        "test_results_that_grow_or_are_many_take_no_memory_of_regrade "
        "test_a_pickle_that_names_a_class_or_function_is_refused_and_not_run "
        "test_a_pickle_that_would_allocate_is_refused_before_it_does test_few_packed_bytes_stand_for_few_and_many_for_many"
    ),
    "**Templates.**": (
        "6 test_a_template_that_grows_without_end_is_ended_in_a_process_of_its_own "
        "test_a_template_that_prints_a_row_needs_no_process "
        "test_a_template_that_takes_all_memory_or_never_ends_is_refused_before_the_engine_renders_it "
        "test_what_a_template_makes_of_some_questions_costs_only_these "
        "test_a_template_that_takes_too_much_for_some_questions_is_refused_by_a_child_process "
        "test_a_template_that_does_not_end_ends_the_engine_and_the_reason_is_said"
    ),
    "**Secrets** are no": (
        "3 test_no_password_is_in_a_process_list_or_a_log "
        "test_an_argument_with_the_name_of_a_secret_is_refused_and_its_value_not_shown "
        "test_no_file_and_no_line_that_a_run_writes_holds_the_token"
    ),
    "**Texts** (": (
        "2 test_nothing_in_a_text_runs_on_the_pages_of_prefect test_nothing_in_a_text_runs_on_the_pages_of_mlflow "
        "test_nothing_in_a_text_runs_on_pages_of_the_viewer_or_in_a_report test_hostile_texts_do_nothing "
        "test_a_report_is_shown_with_style_and_plots_and_runs_nothing"
    ),
    "**The viewer with a token**": (
        "3 test_a_page_elsewhere_reads_nothing_after_a_login test_every_text_can_be_searched_and_means_itself "
        "test_a_value_that_cannot_be_used_is_named"
    ),
    "**Answers**: ": (
        "3 test_changed_answers_are_scored test_changed_programs_are_scored test_changed_answers_are_checked "
        "test_changed_answers_are_scored_by_filters_and_metrics"
    ),
    "**Code**: ": (
        "3 test_a_task_whose_code_runs_parts_of_an_answer_is_refused test_the_code_of_such_a_task_does_run_an_answer "
        "test_code_that_is_not_installed_needs_the_word_of_the_worker test_no_part_of_a_formula_is_run_as_code"
    ),
    "**Bombs**": (
        "3 test_a_row_with_more_than_the_memory_holds_is_decoded_in_a_child_process_only "
        "test_json_that_takes_many_times_its_size_in_memory_is_not_parsed test_names_of_members_are_never_paths"
    ),
    "**Advisories**": (
        "4 test_what_was_not_looked_up_is_not_clean test_an_index_without_information_is_asked_once "
        "test_a_release_is_held_up_by_known_vulnerabilities_and_not_by_an_index_that_does_not_answer"
    ),
    "Whoever has the login can use": "4 test_a_worker_sends_no_other_credential_as_a_key",
    "Prefect itself may unpickle": "2 test_no_flow_stores_a_result",
    "Trusted code is that of a commit": (
        "5 test_code_in_the_models_repository_is_that_of_the_models_commit "
        "test_code_in_another_repository_is_pinned_and_part_of_the_identity "
        "test_the_tokenizers_code_in_another_repository_is_reported_with_its_commit"
    ),
    "On Kubernetes, Prefect's worker": "2 test_the_job_passes_the_restricted_pod_security_profile",
}
SANDBOX = "test_no_hostile_program_does_what_it_tries"
CODE = {
    "The scorer `code` runs": (
        "3 test_the_reference_solutions_pass_as_chat_and_as_completion test_a_sandbox_that_does_not_hold_runs_no_program"
    ),
    "`--sandbox` is an option": (
        "2 test_two_models_are_compared_without_bubblewrap_if_landlock_is_asked_for "
        "test_a_scorer_is_compared_with_an_earlier_one_in_the_sandbox_that_is_asked_for"
    ),
    "| made of": f"0 {SANDBOX}",
    "| needs": "2 test_without_bubblewrap_the_error_says_how_to_install_it test_landlock_works_where_namespaces_are_not_allowed",
    "| files": f"2 {SANDBOX}",
    "| network": f"1 {SANDBOX}",
    "| processes": f"2 {SANDBOX}",
    "| memory, time, output": (
        "2 test_the_numbers_of_the_pages_are_those_of_the_code test_the_limit_of_cases_is_that_of_each_not_of_all_together"
    ),
    "**Weaker in `landlock`**": f"4 {SANDBOX}",
    "**Self-test**": (
        "3 test_the_numbers_of_the_pages_are_those_of_the_code test_a_sandbox_that_does_not_hold_runs_no_program "
        "test_a_sandbox_in_which_nothing_runs_is_an_error_and_no_verdict"
    ),
    "**Root**": "5 test_a_python_that_nobody_can_reach_is_passed_over test_the_environment_names_what_decides_the_scores",
    "**Packages**": "3 test_programs_can_use_numpy_and_the_standard_library",
    "**Time**": (
        "6 test_a_program_that_does_not_end_is_a_timeout_after_a_second_run_alone "
        "test_a_session_scorer_has_its_versions_in_its_label_and_counts_timeouts_apart"
    ),
    "**Processes**": "4 test_no_more_programs_run_at_once_than_fit_into_the_free_memory",
    "Sandbox, Python, NumPy and limits": "2 test_the_environment_names_what_decides_the_scores",
    "None of these settings was tried": (
        "6 test_bubblewrap_is_refused_with_advice test_landlock_works_where_namespaces_are_not_allowed"
    ),
    "Tests and program never share": "5 test_no_cheat_passes test_no_cheat_passes_calls",
    "regrade's own process reads none": (
        "5 test_results_that_grow_or_are_many_take_no_memory_of_regrade "
        "test_a_result_never_moves_the_tests_into_the_process_of_the_program "
        "test_a_call_that_does_not_hear_its_limit_is_ended_by_the_count_of_the_kernel"
    ),
    "**The exception**": (
        "3 test_tests_that_pass_functions_share_a_process_with_the_program "
        "test_an_exit_does_not_pass_tests_that_share_a_process"
    ),
    "An object whose `__eq__`": "1 test_two_cheats_pass_tests_that_share_a_process_as_the_docs_say",
    "Reading expected values": "1 test_two_cheats_pass_tests_that_share_a_process_as_the_docs_say",
    "The text of the tests decides": (
        "5 test_a_result_never_moves_the_tests_into_the_process_of_the_program test_plain_values_cross_with_their_types "
        "test_other_values_equal_nothing test_tests_see_errors_of_the_program_as_errors_of_the_same_name"
    ),
    "| `humaneval_plus`": (
        "3 test_humaneval_shows_the_beginning_of_the_function "
        "test_a_program_that_passes_only_the_first_tests_is_right_in_base_and_wrong_in_plus"
    ),
    "| `mbpp_plus`": "3 test_mbpp_shows_the_description_and_the_first_test",
    "| `livecodebench` |": (
        "2 test_livecodebench_shows_the_starter_code_of_a_function test_the_window_is_part_of_the_identity "
        "test_a_window_ends_with_its_last_month_or_day"
    ),
    "**The program** is": (
        "4 test_the_last_block_that_defines_the_function_is_the_program "
        "test_without_the_function_the_last_block_of_python_is_the_program "
        "test_without_a_label_the_last_block_is_the_program test_a_prompt_that_ends_before_the_function_is_completed"
    ),
    "**Comparison**": (
        "5 test_results_are_compared_as_evalplus_compares_them test_the_reference_solutions_pass_as_chat_and_as_completion"
    ),
    "**LiveCodeBench**": (
        "6 test_a_script_is_a_process_with_its_own_input_threads_and_exit "
        "test_the_limit_of_cases_is_that_of_each_not_of_all_together "
        "test_livecodebench_is_scored_by_tests_that_are_not_stored_with_the_answers"
    ),
    "**Its tests** are": (
        "9 test_livecodebench_is_scored_by_tests_that_are_not_stored_with_the_answers "
        "test_tests_are_read_at_the_commit_of_the_questions test_text_that_the_json_reader_makes_dates_of_is_refused "
        "test_a_pickle_that_names_a_class_or_function_is_refused_and_not_run"
    ),
    "**pass@1**": "2 test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer",
    "Use a dataset with tests": "1 test_a_dataset_of_ones_own_has_tests_or_cases",
    "The target column holds": "1 test_a_dataset_of_ones_own_has_tests_or_cases",
    "Tests in Python, or a list": "2 test_a_dataset_of_ones_own_has_tests_or_cases",
    "Inputs and outputs: ": "7 test_a_dataset_of_ones_own_has_tests_or_cases",
    "Inputs and outputs of a program": "5 test_a_script_is_a_process_with_its_own_input_threads_and_exit",
    "All fields are in": "1 test_files_and_names_on_the_pages_exist",
    "`make test` runs 74": (
        "5 test_the_numbers_of_the_pages_are_those_of_the_code test_no_cheat_passes test_no_cheat_passes_calls "
        "test_more_descriptors_than_select_knows_are_no_problem"
    ),
}
"""Beginning of each part: its number of stops, then the names of its tests."""


LEFT_TO_THE_READER = {
    "security.md": {
        '"The stack" is what': 2,
        "One login is for everybody": 3,
        "The servers speak HTTP": 2,
        "A worker, its flow runs": 3,
    },
    "code.md": {
        "Docker and Kubernetes forbid": 2,
        "| Docker |": 0,
        "| Compose |": 1,
        "| Kubernetes |": 5,
        "| Ubuntu |": 0,
        "What no test can stop": 1,
    },
}
"""Parts that promise nothing: what the reader should do, what words mean, and what nobody keeps from happening."""


def parts(page: str) -> list[str]:
    """Paragraphs, items and rows of a page, without headings and programs."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)
    found = re.split(r"\n\s*\n|\n(?=- |\d\. |\| |\|-|#)", text)
    lines = [re.sub(r"^(- |\d\. )", "", " ".join(part.split())) for part in found]
    head = re.compile(r"#|\|[-: |]+\|$|\| (who|where|name|) ?\|")
    return [line for line in lines if line and not head.match(line)]


@pytest.mark.parametrize(("page", "claims"), [("security.md", SECURITY), ("code.md", CODE)])
def test_each_part_of_the_pages_names_the_tests_that_show_it(page: str, claims: dict[str, str]):
    known = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    told, left = parts(page), LEFT_TO_THE_READER[page]
    for part in told:
        known_parts = [*claims, *left]
        begin = max((b for b in known_parts if part.startswith(b)), key=len, default=None)
        assert begin is not None, f"docs/{page} says this without a test: {part}"
        stops, *tests = (str(left[begin]) if begin in left else claims[begin]).split()
        assert len(re.findall(r"[.:;](?= |$)", part)) == int(stops), f"read again: {part}"
        assert (begin in left) != bool(tests), f"a promise without a test: {part}"
        assert {*tests} <= known, {*tests} - known
    assert len(told) == len(claims) + len(left), "a part that is gone has tests"


@pytest.mark.parametrize("page", ["security.md", "code.md"])
def test_files_and_names_on_the_pages_exist(page: str):
    text = (ROOT / "docs" / page).read_text()
    paths = re.findall(r"`((?:regrade|tests|infra)/[\w/.-]+)`(?: \(`(\w+)`\))?", text)
    assert paths
    for path, name in paths:
        written = path in ("infra/.env",)  # by the reader
        assert written or (ROOT / path).exists(), path
        assert not name or re.search(rf"\b{name}\b", (ROOT / path).read_text()), name


def test_no_flow_stores_a_result():
    asked = re.compile(
        r"persist_result|result_storage|result_serializer|cache_key_fn|cache_policy(?!(\": |=)NO_CACHE)"
    )
    for folder in ("flows", "tasks", "regrade"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not asked.search(path.read_text()), path
    for path in (ROOT / "infra").rglob("*"):
        assert not path.is_file() or b"PREFECT_RESULTS" not in path.read_bytes(), path
    assert ResultsSettings.model_fields["persist_by_default"].default is False


def test_the_numbers_of_the_pages_are_those_of_the_code():
    code = (ROOT / "docs/code.md").read_text()
    for number in (
        f"runs {len(PROGRAMS)} hostile programs in both sandboxes",
        f"and {len(CHEATS)} that try to pass tests",
        f"tries {len(_PROBES) + 1} things that must not work",  # and to write a file of the user
        f"its own `/tmp` of {LIMITS.scratch_mib} MiB and {LIMITS.scratch_files:,} files",
        f"{LIMITS.memory_mib // 1024} GiB; CPU time of {LIMITS.test_cpu_seconds} s per case, "
        f"{LIMITS.call_cpu_seconds} s per call in tests, {LIMITS.program_cpu_seconds} s for the calls",
        f"{LIMITS.output_mib} MiB | the same",
        f"Elapsed time, {LIMITS.wall_factor:.0f} times as much",
        f"{LIMITS.all_bytes / 2**30:.1f} GiB for each",
    ):
        assert number in code
