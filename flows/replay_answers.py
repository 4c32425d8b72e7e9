"""Flow `replay-answers`: read stored answers with the model that gave them and with another one, and compare what they find."""

from prefect import flow
from prefect.runtime import flow_run

from flows import generating
from flows.scoring import time_spent
from regrade.answers.sets import AnswerSet
from regrade.comparing.replay import Replay, blocks, compared
from regrade.jobs import plans_of_job
from regrade.jobs.replay import ReplayJob
from regrade.orchestration import artifacts
from regrade.orchestration.form import form, takes
from regrade.results.display import timed
from regrade.settings.errors import SettingsError
from regrade.text.markdown import escape, markdown
from tasks.replay import plan_replays, plans_of_replay
from tasks.work import Work


def run_name() -> str:
    """Name of the flow run: `replay of <answer set>: <model>`."""
    parameters = flow_run.parameters
    model = parameters.get("model") or "its model under other settings"
    return f"replay of {parameters['answer_set']}: {model}"


def begin(job: ReplayJob) -> None:
    """Check and plan both replays, before anything starts."""
    plans_of_job.begin(plans_of_replay, job)


@form
@flow(name="replay-answers", flow_run_name=run_name)
@takes(ReplayJob)
@timed(advised=False)
def replay_answers(job: ReplayJob) -> Replay:
    """Read stored answers with two models, publish the log-probabilities, and compare them."""
    answers, planned = plan_replays(job)
    replays: list[AnswerSet] = []
    made: list[Work] = []
    for replay in planned:
        if isinstance(replay, AnswerSet):
            replays.append(replay)
            continue
        settings, work = replay
        with generating.opened([work]) as works:
            generating.generate(settings, works, others_follow=replay is not planned[-1])
            replays += generating.publish(works)
            made += works
    own, other = replays
    result = compared(answers, own, other)
    if isinstance(result, str):
        raise SettingsError(f"Nothing could be compared: {result}")
    result = result.model_copy(update={"time_spent": time_spent(made)})
    artifacts.show("replay", markdown(blocks(result)), escape(result.verdict))
    return result
