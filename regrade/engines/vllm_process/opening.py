"""Owner side: the messages that open a worker, and requests as JSON."""

from dataclasses import asdict
from typing import Any

from regrade.engines.base import PromptRendering
from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.extra import parse_extra, refuse_code
from regrade.engines.vllm_process.settings import NO_ARGUMENTS, VllmSettings
from regrade.models import ResolvedModel
from regrade.records import Request


def open_message(
    settings: VllmSettings, model: ResolvedModel, rendering: PromptRendering
) -> Message:
    """Return the message that opens a worker.

    Raises:
        SettingsError: If an extra argument is not `name=value`, or runs code that this machine does not allow.
    """
    extra = parse_extra(settings.extra)
    refuse_code(extra)
    if model.code_revision is not None:
        extra["code_revision"] = model.code_revision
    return {
        "type": "open",
        "model": model.path,
        "revision": model.revision,
        "adapter": model.adapter,
        "settings": settings.model_dump(exclude={*NO_ARGUMENTS}),
        "extra": extra,
        "rendering": {
            "chat_template": rendering.chat_template,
            "truncate": rendering.truncate,
        },
    }


def needs_hub_token(settings: VllmSettings, model: ResolvedModel) -> bool:
    """Return True if vLLM may load from the Hub: other arguments may name a tokenizer or a draft model there."""
    return model.identity.kind == "hub" or bool(settings.extra)


def to_wire(request: Request) -> dict[str, Any]:
    """Return a request as JSON."""
    return {
        "key": request.key,
        "prompt": request.prompt
        if isinstance(request.prompt, str)
        else [dict(m) for m in request.prompt],
        "sampling": dict(request.sampling),
        "labels": request.labels,
        "ranking": request.ranking,
        "contexts": [
            context if isinstance(context, str) else [dict(m) for m in context]
            for context in request.contexts
        ],
        "template_arguments": dict(request.template_arguments),
        "day": None if request.day is None else request.day.isoformat(),
        "structure": None if request.structure is None else asdict(request.structure),
        "reasons": request.reasons,
    }
