"""`EngineSettings`: the settings of any installed engine. Their `kind` tells them apart."""

from typing import TYPE_CHECKING, TypeAlias, Union

from regrade import registry

if TYPE_CHECKING:
    from regrade.engines.openai import OpenAIEngine
    from regrade.engines.vllm import VllmEngine

    EngineSettings: TypeAlias = VllmEngine | OpenAIEngine
else:  # an engine that cannot be used is an error when its `kind` is given, not when others are used
    _broken = {error.name for error in registry.broken("engine")}
    EngineSettings = Union[  # noqa: UP007 - their number is not known
        tuple(
            registry.load("engine", name)
            for name in sorted(registry.names("engine"), key=lambda name: name != "vllm")
            if name not in _broken
        )
    ]
