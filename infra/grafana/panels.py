"""Panels of the dashboards: each is a title, a query in PromQL, a unit and a legend."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Panel:
    """A panel with one line per result of its query."""

    title: str
    query: str
    legend: str
    unit: str = "short"
    """Unit of Grafana: `short`, `s`, `percentunit`, `bytes`, `reqps`."""
    description: str = ""


@dataclass(frozen=True)
class Dashboard:
    """A page of panels, two in a row."""

    name: str
    title: str
    description: str
    selector: str
    """Metric whose values of `instance` can be chosen."""
    panels: tuple[Panel, ...]


HERE = 'instance=~"$instance"'
SERVED = f'{{{HERE},model_name=~".*"}}'
RATE = "[$__rate_interval]"


def _quantiles(title: str, metric: str, description: str) -> Panel:
    """Return a panel with the median and the 99th percentile of a histogram of vLLM."""
    return Panel(
        title,
        f'label_replace(histogram_quantile(0.5, sum by (le, model_name) (rate({metric}_bucket{SERVED}{RATE}))), "q", "50", "", "") '
        f'or label_replace(histogram_quantile(0.99, sum by (le, model_name) (rate({metric}_bucket{SERVED}{RATE}))), "q", "99", "", "")',
        "{{model_name}} p{{q}}",
        "s",
        f"{description} Values below the histogram's first bucket are interpolated.",
    )


def _served(
    title: str, metric: str, unit: str = "short", description: str = "", *, of: str = "sum"
) -> Panel:
    """Return a panel with a line for each model of each machine; the rate of a counter, whose name ends in `_total`."""
    value = f"rate({metric}{SERVED}{RATE})" if metric.endswith("_total") else f"{metric}{SERVED}"
    query = f"{of} by (instance, model_name) ({value})"
    return Panel(title, query, "{{instance}} {{model_name}}", unit, description)


VLLM = Dashboard(
    "vllm",
    "regrade: a serving vLLM",
    "Latencies, load and cache of `vllm serve`, from its own metrics.",
    "vllm:num_requests_running",
    (
        _served("Requests running", "vllm:num_requests_running"),
        _served("Requests waiting", "vllm:num_requests_waiting"),
        _served("Output tokens per second", "vllm:generation_tokens_total"),
        _served("Prompt tokens per second", "vllm:prompt_tokens_total"),
        _quantiles(
            "Time to first token (TTFT)",
            "vllm:time_to_first_token_seconds",
            "From the arrival of a request to its first token.",
        ),
        _quantiles(
            "Time per output token (TPOT)",
            "vllm:request_time_per_output_token_seconds",
            "Mean of each request, without its first token.",
        ),
        _quantiles(
            "Between tokens (ITL)", "vllm:inter_token_latency_seconds", "All gaps between tokens."
        ),
        _quantiles(
            "Whole answer (E2EL)", "vllm:e2e_request_latency_seconds", "From arrival to last token."
        ),
        _quantiles(
            "In the queue", "vllm:request_queue_time_seconds", "From arrival until scheduled."
        ),
        _served("KV cache in use", "vllm:kv_cache_usage_perc", "percentunit", of="max"),
        Panel(
            "Prefix cache hits",
            f"sum by (instance, model_name) (rate(vllm:prefix_cache_hits_total{SERVED}{RATE})) / "
            f"sum by (instance, model_name) (rate(vllm:prefix_cache_queries_total{SERVED}{RATE}))",
            "{{instance}} {{model_name}}",
            "percentunit",
            "Share of prompt tokens read from the prefix cache.",
        ),
        _served(
            "Preemptions per second",
            "vllm:num_preemptions_total",
            "reqps",
            "Requests whose KV cache was taken away while they ran.",
        ),
        Panel(
            "Finished requests per second",
            f"sum by (finished_reason) (rate(vllm:request_success_total{SERVED}{RATE}))",
            "{{finished_reason}}",
            "reqps",
        ),
    ),
)

EVALUATION = Dashboard(
    "evaluation",
    "regrade: an evaluation",
    "Answers, tokens, failures, spool and commits of a run of `evaluate` or `generate`.",
    "regrade_info",
    (
        Panel(
            "Answers done",
            f"(regrade_answers_stored{{{HERE}}} + on (instance, benchmark, model, answer_set) "
            f"regrade_answers_total{{{HERE}}}) / on (instance, benchmark, model, answer_set) "
            f"regrade_answers_planned{{{HERE}}}",
            "{{benchmark}} {{model}}",
            "percentunit",
        ),
        Panel(
            "Time left",
            f"min by (benchmark, model, answer_set) (regrade_answers_left{{{HERE}}}) / "
            f"(sum by (benchmark, model, answer_set) (rate(regrade_answers_total{{{HERE}}}{RATE})) > 0)",
            "{{benchmark}} {{model}}",
            "s",
            "At the speed of all machines in the last minutes.",
        ),
        Panel(
            "Answers per second",
            f"rate(regrade_answers_total{{{HERE}}}{RATE})",
            "{{benchmark}} {{model}}",
            "reqps",
        ),
        Panel(
            "Tokens per second",
            f"sum by (instance, kind) (rate(regrade_tokens_total{{{HERE}}}{RATE}))",
            "{{instance}} {{kind}}",
        ),
        Panel("Answers left", f"regrade_answers_left{{{HERE}}}", "{{benchmark}} {{model}}"),
        Panel(
            "Requests in the engine",
            f"sum by (instance) (regrade_requests_in_engine{{{HERE}}})",
            "{{instance}}",
        ),
        Panel(
            "Answers that failed",
            f"sum by (benchmark, reason) (regrade_failed_answers_total{{{HERE}}})",
            "{{benchmark}} {{reason}}",
            description="`failed` is sent again by the next run, `refused` cannot succeed.",
        ),
        Panel(
            "Answers that are not published",
            f"regrade_spool_rows{{{HERE}}}",
            "{{benchmark}} {{model}}",
            description="They are on the machine's disk, in the spool.",
        ),
        Panel(
            "Spool on disk",
            f"sum by (instance) (regrade_spool_bytes{{{HERE}}})",
            "{{instance}}",
            "bytes",
        ),
        Panel(
            "Commits",
            f"sum by (instance, outcome) (regrade_commits_total{{{HERE}}})",
            "{{instance}} {{outcome}}",
        ),
        Panel(
            "Since the last commit",
            f"time() - max by (instance) (regrade_last_commit_timestamp_seconds{{{HERE}}})",
            "{{instance}}",
            "s",
        ),
        Panel(
            "Engine's loading time",
            f"max by (instance) (regrade_engine_load_seconds{{{HERE}}})",
            "{{instance}}",
            "s",
        ),
    ),
)

FLEET = Dashboard(
    "fleet",
    "regrade: the fleet",
    "All machines that evaluate: what they do, and which of them has stopped.",
    "regrade_info",
    (
        Panel("Runs", f"count by (version) (regrade_info{{{HERE}}})", "regrade {{version}}"),
        Panel(
            "Targets that do not answer",
            'sum by (job) (up{job=~"regrade|vllm"} == bool 0)',
            "{{job}}",
            description="A port without a run counts too: a worker uses one for each run.",
        ),
        Panel(
            "Answers per second, all machines",
            f"sum by (model) (rate(regrade_answers_total{{{HERE}}}{RATE}))",
            "{{model}}",
            "reqps",
        ),
        Panel(
            "Answers per second, each machine",
            f"sum by (instance) (rate(regrade_answers_total{{{HERE}}}{RATE}))",
            "{{instance}}",
            "reqps",
        ),
        Panel(
            "Output tokens per second, each machine",
            f'sum by (instance) (rate(regrade_tokens_total{{{HERE},kind="completion"}}{RATE}))',
            "{{instance}}",
        ),
        Panel(
            "Machines that answer nothing",
            f"count(sum by (instance) (rate(regrade_answers_total{{{HERE}}}{RATE})) == 0) or vector(0)",
            "machines",
        ),
        Panel(
            "Answers left",
            f"min by (benchmark, model) (regrade_answers_left{{{HERE}}})",
            "{{benchmark}} {{model}}",
        ),
        Panel(
            "Answers that are not published",
            f"sum by (instance) (regrade_spool_rows{{{HERE}}})",
            "{{instance}}",
        ),
        Panel(
            "Answers that failed",
            f"sum by (instance, reason) (regrade_failed_answers_total{{{HERE}}})",
            "{{instance}} {{reason}}",
        ),
        Panel(
            "Commits in the last hour",
            f"sum by (outcome) (increase(regrade_commits_total{{{HERE}}}[1h]))",
            "{{outcome}}",
            description="The Hub allows about 128 per hour and account.",
        ),
    ),
)

DASHBOARDS = (VLLM, EVALUATION, FLEET)
