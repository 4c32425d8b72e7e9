"""Panels of the dashboards: each is a title, an expression, a unit and a legend."""

import re
from dataclasses import dataclass

_METRIC = re.compile(r"\b(regrade_\w+|vllm:\w+)(?:\{(.+?)\})?")
_RATE = re.compile(r"\brate\(([^()]+)\)")
_BY = re.compile(r"\w+ by \((.+?)\)")


@dataclass(frozen=True)
class Panel:
    """A panel with one line per result of its query."""

    title: str
    expression: str
    """Query in PromQL, without what all have in common: the chosen machines, and the time of a rate."""
    unit: str = "short"
    """Unit of Grafana: `short`, `s`, `percentunit`, `bytes`, `reqps`."""
    description: str = ""
    name: str = ""
    """Name of each line. "": the labels by which the expression groups, else benchmark and model."""

    @property
    def query(self) -> str:
        """Query in PromQL."""
        selected = _METRIC.sub(_selected, self.expression)
        return _RATE.sub(r"rate(\1[$__rate_interval])", selected)

    @property
    def legend(self) -> str:
        """Name of each line, with Grafana's places for labels."""
        grouped = _BY.match(self.expression)
        labels = (grouped[1] if grouped else "benchmark, model").split(", ")
        return self.name or " ".join(f"{{{{{label}}}}}" for label in labels)


def _selected(metric: re.Match[str]) -> str:
    """Return a metric of the chosen machines."""
    labels = filter(None, ['instance=~"$instance"', metric[2]])
    return f"{metric[1]}{{{','.join(labels)}}}"


@dataclass(frozen=True)
class Dashboard:
    """A page of panels, two in a row."""

    name: str
    title: str
    description: str
    selector: str
    """Metric whose values of `instance` can be chosen."""
    panels: tuple[Panel, ...]


def _quantiles(title: str, metric: str, description: str) -> Panel:
    """Return a panel with the median and the 99th percentile of a histogram of vLLM."""
    lines = " or ".join(
        f"label_replace(histogram_quantile({quantile}, sum by (le, model_name) (rate({metric}_bucket))), "
        f'"q", "{name}", "", "")'
        for quantile, name in ((0.5, "50"), (0.99, "99"))
    )
    below = "Values below the histogram's first bucket are interpolated."
    return Panel(title, lines, "s", f"{description} {below}", "{{model_name}} p{{q}}")


def _served(title: str, value: str, unit: str = "short", description: str = "") -> Panel:
    """Return a panel with a line for each model of each machine."""
    return Panel(title, f"sum by (instance, model_name) ({value})", unit, description)


VLLM = Dashboard(
    "vllm",
    "regrade: a serving vLLM",
    "Latencies, load and cache of `vllm serve`, from its own metrics.",
    "vllm:num_requests_running",
    (
        _served("Requests running", "vllm:num_requests_running"),
        _served("Requests waiting", "vllm:num_requests_waiting"),
        _served("Output tokens per second", "rate(vllm:generation_tokens_total)"),
        _served("Prompt tokens per second", "rate(vllm:prompt_tokens_total)"),
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
        Panel(
            "KV cache in use",
            "max by (instance, model_name) (vllm:kv_cache_usage_perc)",
            "percentunit",
        ),
        Panel(
            "Prefix cache hits",
            "sum by (instance, model_name) (rate(vllm:prefix_cache_hits_total)) / "
            "sum by (instance, model_name) (rate(vllm:prefix_cache_queries_total))",
            "percentunit",
            "Share of prompt tokens read from the prefix cache.",
        ),
        _served(
            "Preemptions per second",
            "rate(vllm:num_preemptions_total)",
            "reqps",
            "Requests whose KV cache was taken away while they ran.",
        ),
        Panel(
            "Finished requests per second",
            "sum by (finished_reason) (rate(vllm:request_success_total))",
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
            "(regrade_answers_stored + on (instance, benchmark, model, answer_set) regrade_answers_total) "
            "/ on (instance, benchmark, model, answer_set) regrade_answers_planned",
            "percentunit",
        ),
        Panel(
            "Time left",
            "min by (benchmark, model, answer_set) (regrade_answers_left) / "
            "(sum by (benchmark, model, answer_set) (rate(regrade_answers_total)) > 0)",
            "s",
            "At the speed of all machines in the last minutes.",
            "{{benchmark}} {{model}}",
        ),
        Panel("Answers per second", "rate(regrade_answers_total)", "reqps"),
        Panel("Tokens per second", "sum by (instance, kind) (rate(regrade_tokens_total))"),
        Panel("Answers left", "regrade_answers_left"),
        Panel("Requests in the engine", "sum by (instance) (regrade_requests_in_engine)"),
        Panel(
            "Answers that failed",
            "sum by (benchmark, reason) (regrade_failed_answers_total)",
            description="`failed` is sent again by the next run, `refused` cannot succeed.",
        ),
        Panel(
            "Answers that are not published",
            "regrade_spool_rows",
            description="They are on the machine's disk, in the spool.",
        ),
        Panel("Spool on disk", "sum by (instance) (regrade_spool_bytes)", "bytes"),
        Panel("Commits", "sum by (instance, outcome) (regrade_commits_total)"),
        Panel(
            "Since the last commit",
            "time() - max by (instance) (regrade_last_commit_timestamp_seconds)",
            "s",
            name="{{instance}}",
        ),
        Panel("Engine's loading time", "max by (instance) (regrade_engine_load_seconds)", "s"),
    ),
)

FLEET = Dashboard(
    "fleet",
    "regrade: the fleet",
    "All machines that evaluate: what they do, and which of them has stopped.",
    "regrade_info",
    (
        Panel("Runs", "count by (version) (regrade_info)", name="regrade {{version}}"),
        Panel(
            "Targets that do not answer",
            'sum by (job) (up{job=~"regrade|vllm"} == bool 0)',
            description="A port without a run counts too: a worker uses one for each run.",
        ),
        Panel(
            "Answers per second, all machines",
            "sum by (model) (rate(regrade_answers_total))",
            "reqps",
        ),
        Panel(
            "Answers per second, each machine",
            "sum by (instance) (rate(regrade_answers_total))",
            "reqps",
        ),
        Panel(
            "Output tokens per second, each machine",
            'sum by (instance) (rate(regrade_tokens_total{kind="completion"}))',
        ),
        Panel(
            "Machines that answer nothing",
            "count(sum by (instance) (rate(regrade_answers_total)) == 0) or vector(0)",
            name="machines",
        ),
        Panel("Answers left", "min by (benchmark, model) (regrade_answers_left)"),
        Panel("Answers that are not published", "sum by (instance) (regrade_spool_rows)"),
        Panel("Answers that failed", "sum by (instance, reason) (regrade_failed_answers_total)"),
        Panel(
            "Commits in the last hour",
            "sum by (outcome) (increase(regrade_commits_total[1h]))",
            description="The Hub allows about 128 per hour and account.",
        ),
    ),
)

DASHBOARDS = (VLLM, EVALUATION, FLEET)
