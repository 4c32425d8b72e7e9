"""Compare HTTP clients for the engine `openai`: streamed answers, with 256 requests in flight.

    python -m perf.clients                                  # against a stand-in in another process
    python -m perf.clients --vllm --requests 2000           # against `vllm serve` on this machine

Each client runs in a new process, sends the same requests and puts the pieces of each answer together. The clients take
turns. CPU time is that of the client's process without its imports. The stand-in sends one event for each token, as vLLM
does, and pauses between them, so that the answers of all requests come mixed.

Clients: regrade's transport (aiohttp, orjson); plain httpx2; the `openai` package with its own parsing; the `openai` package
for requests and retries only, with regrade's parsing; the `openai` package on aiohttp.
"""

# ruff: noqa: PLC0415 - import time of a client is not measured

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import orjson

from perf.measuring import arguments_of, python, report, spread
from perf.server import SERVER_OPTIONS
from perf.serving import NAME, vllm_server
from perf.workloads import prompts

GOAL = 1.05
"""Highest accepted CPU time of another client, as a multiple of that of regrade's transport."""
KEY = "none"
BACKLOG = 1024
"""Connections that wait to be accepted."""

Ask = Callable[[dict[str, Any]], Awaitable[int]]
"""Sends a body, and returns the number of characters of the answer."""


def event(text: str, finish_reason: str | None) -> bytes:
    """One streamed token as vLLM 0.32 sends it."""
    choice = {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
    }
    document = {
        "id": "cmpl-8f14e45fceea167a5a36dedd4bea2543",
        "object": "text_completion",
        "created": 1763800000,
        "model": NAME,
        "choices": [choice],
        "usage": None,
    }
    return b"data: " + orjson.dumps(document) + b"\n\n"


def stand_in(address: Connection, tokens: int, pause: float) -> None:
    """Answer each POST with `tokens` events, `pause` seconds apart; send the port through `address`."""
    usage = {"prompt_tokens": 40, "total_tokens": 40 + tokens, "completion_tokens": tokens}
    last = {"id": "cmpl-8f14e45f", "object": "text_completion", "created": 1763800000}
    last |= {"model": NAME, "choices": [], "usage": usage}
    bodies = [event(" seven", None)] * (tokens - 1) + [event(" seven", "length")]
    bodies.append(b"data: " + orjson.dumps(last) + b"\n\ndata: [DONE]\n\n")
    chunks = [b"%x\r\n%b\r\n" % (len(body), body) for body in bodies]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    head += b"transfer-encoding: chunked\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                fields = request.lower().split(b"content-length:")
                await reader.readexactly(int(fields[1].split(b"\r\n")[0]))
                writer.write(head)
                for chunk in chunks:
                    await asyncio.sleep(pause)
                    writer.write(chunk)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=BACKLOG)
        address.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@contextmanager
def serving(options: argparse.Namespace) -> Iterator[str]:
    """Yield the address of a server without `/v1`."""
    if options.vllm:
        with vllm_server("infra/demo/regrade-demo", SERVER_OPTIONS) as address:
            yield address
        return
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    server = context.Process(
        target=stand_in, args=(sending, options.tokens, options.pause), daemon=True
    )
    server.start()
    try:
        yield f"http://127.0.0.1:{receiving.recv()}"
    finally:
        server.terminate()
        server.join()


@asynccontextmanager
async def transport(base_url: str, in_flight: int) -> AsyncIterator[Ask]:
    """regrade's transport."""  # noqa: D403 - the name
    from regrade.engines.openai_api.settings import ServerSettings
    from regrade.engines.openai_api.transport import Server

    server = Server(ServerSettings(base_url=base_url, max_concurrency=in_flight))

    async def ask(body: dict[str, Any]) -> int:
        return len((await server.stream("completions", body))["choices"][0]["text"])

    yield ask
    await server.close()


@asynccontextmanager
async def httpx2(base_url: str, in_flight: int) -> AsyncIterator[Ask]:
    """Plain httpx2 with regrade's parsing, without retries."""
    from httpx2 import AsyncClient, Limits

    limits = Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with AsyncClient(base_url=base_url, limits=limits, timeout=600) as client:

        async def ask(body: dict[str, Any]) -> int:
            headers = {"content-type": "application/json"}
            content = orjson.dumps(body)
            async with client.stream(
                "POST", "completions", content=content, headers=headers
            ) as response:
                response.raise_for_status()
                return await length(response.aiter_raw(), body)

        yield ask


def openai_client(kind: str) -> Any:  # noqa: ANN401 - a context manager over `Ask`
    """Clients of the `openai` package: `typed`, `raw` (regrade's parsing) or `aiohttp` (typed, on aiohttp)."""

    @asynccontextmanager
    async def connected(base_url: str, in_flight: int) -> AsyncIterator[Ask]:
        from httpx2 import Limits
        from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpxClient

        http_client = DefaultAioHttpClient if kind == "aiohttp" else DefaultAsyncHttpxClient
        limits = Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
        client = AsyncOpenAI(
            base_url=base_url,
            api_key=KEY,
            max_retries=6,
            timeout=600,
            http_client=http_client(limits=limits),
        )

        async def typed(body: dict[str, Any]) -> int:
            texts: list[str] = []
            finished = False
            async for chunk in await client.completions.create(**body):
                for choice in chunk.choices:
                    texts.append(choice.text)
                    finished = finished or choice.finish_reason is not None
            assert finished  # noqa: S101 - a measurement of broken answers is none
            return len("".join(texts))

        async def raw(body: dict[str, Any]) -> int:
            async with client.completions.with_streaming_response.create(**body) as response:
                return await length(response.iter_bytes(), body)

        yield raw if kind == "raw" else typed
        await client.close()

    return connected


async def length(chunks: AsyncIterator[bytes], body: dict[str, Any]) -> int:
    """Put an answer together as regrade's transport does; return its number of characters."""
    from regrade.engines.openai_api.streaming import END, StreamedResponse, events

    started, answer = time.monotonic(), StreamedResponse()
    async for data in events(chunks):
        if data == END:
            answer.ended = True
            break
        answer.add(orjson.loads(data))
    assert answer.is_whole  # noqa: S101 - as above
    document = answer.document(chat="messages" in body, started=started)
    return len(document["choices"][0]["text"])


CLIENTS: dict[str, Any] = {
    "regrade": transport,
    "httpx2": httpx2,
    "openai": openai_client("typed"),
    "openai, regrade's parsing": openai_client("raw"),
    "openai on aiohttp": openai_client("aiohttp"),
}


async def measure(name: str, base_url: str, n: int, tokens: int, in_flight: int) -> dict[str, Any]:
    """Send all requests; return seconds, CPU seconds and the characters of all answers."""
    shared = {"model": NAME, "max_tokens": tokens, "temperature": 0.0, "stream": True}
    shared["stream_options"] = {"include_usage": True}
    async with CLIENTS[name](base_url, in_flight) as ask:
        await ask({**shared, "prompt": "warm"})
        waiting = iter(prompts(n))

        async def worker() -> int:
            return sum([await ask({**shared, "prompt": prompt}) for prompt in waiting])

        started, cpu = time.monotonic(), time.process_time()
        lengths = await asyncio.gather(*(worker() for _ in range(in_flight)))
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "characters": sum(lengths)}


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--repetitions")
    parser.add_argument(
        "--vllm", action="store_true", help="start `vllm serve` with the demo model"
    )
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--tokens", type=int, default=16, help="of each answer")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two tokens")
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--clients", nargs="+", choices=[*CLIENTS], default=[*CLIENTS])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, address = options.one
        sizes = (options.requests, options.tokens, options.in_flight)
        print(json.dumps(asyncio.run(measure(name, f"{address}/v1/", *sizes))))
        return
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.clients}
    sizes = ["--requests", str(options.requests), "--tokens", str(options.tokens)]
    sizes += ["--in-flight", str(options.in_flight)]
    with serving(options) as address:
        for _ in range(options.repetitions):
            for name, measured in runs.items():
                command = ["-m", "perf.clients", "--one", name, address, *sizes]
                measured.append(python(*command).document)
    first = statistics.median(run["cpu"] for run in runs[options.clients[0]])
    rows = [
        {
            "client": name,
            "requests/s": spread([options.requests / run["seconds"] for run in measured], 0),
            "CPU, ms per request": spread(
                [1000 * run["cpu"] / options.requests for run in measured], 3
            ),
            f"CPU / {options.clients[0]}": round(
                statistics.median(run["cpu"] for run in measured) / first, 2
            ),
            "goal": GOAL,
            "characters": measured[-1]["characters"],
        }
        for name, measured in runs.items()
    ]
    report("clients", rows)


if __name__ == "__main__":
    main()
