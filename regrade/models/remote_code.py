"""Code of models (`trust_remote_code`), pinned to commits: their `auto_map` may name other repositories on the Hub."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from regrade.errors import ModelError
from regrade.hub_client import bound_requests
from regrade.models.base import ResolvedModel
from regrade.models.hub import hub_commit, hub_file

logger = logging.getLogger("regrade.plan")


def with_pinned_code(model: ResolvedModel, revision: str | None) -> ResolvedModel:
    """Return a model whose code is trusted, with the commits from which the code is read.

    vLLM reads code from the model's own repository at the model's commit, but from another one at its newest.

    Args:
        model: The model.
        revision: Branch, tag or commit of the repository with the model's code. None: of its own repository the model's
            commit, of another one the newest.

    Raises:
        ModelError: If a repository, revision or file of code does not exist, or a model's code comes from several
            repositories on the Hub, for which vLLM takes one revision.
        HubError: If the Hub cannot be reached or fails.
    """
    on_hub = model.identity.kind == "hub"
    own = model.path if on_hub else ""
    code = {name or own: file for name, file in model.model_code.items()}
    if not on_hub:
        code.pop("", None)  # the folder's fingerprint covers its code
    if len(code) > 1:
        raise ModelError(
            model.path,
            f"its code comes from {' and '.join(sorted(code))}, and vLLM takes only one revision for both. Download the "
            "model and its code into a folder, and name the files there in its `auto_map`.",
        )
    commits: dict[str, str] = {}
    code_revision: str | None = None
    for name, file in code.items():
        at_model = name == own and revision is None
        commit = model.revision if at_model and model.revision else _commit(name, revision, file)
        if (name, commit) != (own, model.revision):
            commits[name] = commit
        code_revision = commit
    others = {name: file for name, file in model.tokenizer_code.items() if name not in ("", own)}
    commits |= _tokenizer_commits(model, others, commits)
    return replace(model, code_revision=code_revision, code_commits=commits)


def _tokenizer_commits(
    model: ResolvedModel, files: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the newest commit of each repository with code for the tokenizer, which vLLM cannot pin."""
    commits = {name: _commit(name, None, file) for name, file in files.items()}
    for name, commit in commits.items():
        if known.get(name, commit) != commit:
            raise ModelError(
                model.path,
                f"the code of its tokenizer is in '{name}' too, and vLLM reads that at the newest commit {commit[:12]} and "
                f"the model's at {known[name][:12]}. Leave out `code_revision`.",
            )
        logger.warning(
            "The code of the tokenizer of '%s' comes from '%s', which vLLM reads at its newest commit, now %s. To pin "
            "it, download the model and its code into a folder.",
            model.path,
            name,
            commit[:12],
        )
    return commits


def _commit(repository: str, revision: str | None, file: str) -> str:
    bound_requests()
    hub_commit(repository, repository, revision)  # has an error for each reason
    # By branch or tag, so that the cache stores its commit for offline use.
    path = hub_file(repository, revision, file)
    if path is None:
        raise ModelError(repository, f"it has no file '{file}' with the code of the model.")
    return path.parent.name
