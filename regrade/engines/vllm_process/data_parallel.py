"""Worker side: run several copies of the model, which vLLM supports only in its asynchronous engine."""

import asyncio
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from regrade.engines.vllm_process.conversion import rejection
from regrade.engines.vllm_process.loop import RejectedRequest
from regrade.engines.vllm_process.meter import Meter

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import (
        AsyncLLM,
        LoRARequest,
        RequestOutput,
        SamplingParams,
        VllmConfig,
    )


class DataParallelEngine:
    """vLLM's `AsyncLLM` behind the methods of `LLMEngine` that the loop uses."""

    def __init__(self, config: "VllmConfig", meter: Meter) -> None:
        self._finished: queue.SimpleQueue[RequestOutput | RejectedRequest | BaseException]
        self._finished = queue.SimpleQueue()
        self._running: dict[str, Future[None]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="AsyncLLM", daemon=True).start()
        opening = asyncio.run_coroutine_threadsafe(_open(config, meter), self._loop)
        self._engine: AsyncLLM = opening.result()

    def add_request(
        self,
        request_id: str,
        prompt: Any,  # noqa: ANN401
        params: "SamplingParams",
        *,
        lora_request: "LoRARequest | None" = None,
    ) -> None:
        """Start a request; vLLM picks the copy of the model."""
        generating = self._generate(request_id, prompt, params, lora_request)
        self._running[request_id] = asyncio.run_coroutine_threadsafe(generating, self._loop)

    def add_lora(self, lora_request: "LoRARequest") -> bool:
        """Load an adapter into all copies."""
        return asyncio.run_coroutine_threadsafe(
            self._engine.add_lora(lora_request), self._loop
        ).result()

    def reset_prefix_cache(self) -> bool:
        """Forget the computed prompts of all copies; False if requests still use them."""
        resetting = self._engine.reset_prefix_cache()
        return asyncio.run_coroutine_threadsafe(resetting, self._loop).result()

    def abort_request(self, request_ids: Sequence[str]) -> None:
        """Abort requests."""
        for request_id in request_ids:
            if (running := self._running.pop(request_id, None)) is not None:
                running.cancel()  # else it has ended, and `step` has returned it with others

    def step(self) -> "list[RequestOutput | RejectedRequest]":
        """Wait until a request has finished, and return all results so far."""
        results = [self._finished.get()]
        while not self._finished.empty():
            results.append(self._finished.get())
        outputs: list[RequestOutput | RejectedRequest] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            if self._running.pop(result.request_id, None) is not None:
                outputs.append(result)
        return outputs

    async def _generate(
        self,
        request_id: str,
        prompt: Any,  # noqa: ANN401
        params: "SamplingParams",
        lora_request: "LoRARequest | None",
    ) -> None:
        """Queue the answer, the request's error or the end of the engine; `step` waits for exactly one of them."""
        from regrade.engines.vllm_process.internals import EngineDeadError

        try:
            async for output in self._engine.generate(
                prompt, params, request_id, lora_request=lora_request
            ):
                if output.finished:
                    self._finished.put(output)
                    return
        except asyncio.CancelledError:
            raise  # aborted
        except EngineDeadError as error:
            self._finished.put(error)
        except Exception as error:  # noqa: BLE001 - an error of one request must not end the others
            self._finished.put(RejectedRequest(request_id, rejection(error)))
        except BaseException as error:
            self._finished.put(error)
            raise
        else:
            self._finished.put(RejectedRequest(request_id, "vLLM ended the request unanswered."))


async def _open(config: "VllmConfig", meter: Meter) -> "AsyncLLM":
    from regrade.engines.vllm_process.internals import AsyncLLM, UsageContext

    engine = AsyncLLM.from_vllm_config(config, usage_context=UsageContext.LLM_CLASS)
    engine.logger_manager = meter  # type: ignore[assignment]  # in the place of logs and Prometheus
    engine._logger_ref[0] = meter  # type: ignore[call-overload]  # its task, which runs already, reads this one
    return engine
