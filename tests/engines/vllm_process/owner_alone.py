"""The owner's side of the engine `vllm`, with a worker that does nothing but note what it is told."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from regrade.engines.base import EngineInfo, PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.models.base import ResolvedModel
from regrade.records.computed import LoadedWeights


class OwnerAlone(VllmProcess):
    """A loaded engine with the weights `w1`."""

    def __init__(self, model: ResolvedModel, log: Path) -> None:
        super().__init__(VllmEngine(), model, requests=[], rendering=PromptRendering(), log=log)
        self.told: list[dict[str, Any]] = []
        """Messages to the worker, and its starts and ends."""
        self._process: Any = SimpleNamespace(channel=SimpleNamespace(send=self.told.append))
        self._info = EngineInfo(
            "vllm", "0.32.0", "cuda", "bfloat16", 512, None, 1.0, weights=LoadedWeights(memory="w1")
        )
        self.weights, self.reloaded = "w1", "w2"
        """Digests of the weights in memory, and of those that a reload reads."""
        self.refused: str | None = None

    def kinds(self) -> list[Any]:
        """Messages to the worker, with the level of sleep or whether a reload wakes it."""
        return [(told["type"], told.get("level", told.get("wakes"))) for told in self.told]

    def _swap(self, message: dict[str, Any]) -> dict[str, Any]:
        self.told.append(message)
        if message["type"] == "reload":
            self.weights = self.reloaded
        answer = {"refused": self.refused, "weights": self.weights, "seconds": 0.1}
        return {**answer, "before": None}

    def _measured(self, *, last: bool = False) -> None:
        pass

    def _start(self) -> Any:
        self.told.append({"type": "new start"})
        return self._process

    def _end(self) -> None:
        self.told.append({"type": "end"})

    def _open(self) -> None:
        self._asleep = 0
