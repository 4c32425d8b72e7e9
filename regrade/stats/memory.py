"""Memory of an engine as it was at its start."""

from pydantic import Field

from regrade.settings import StrictModel

MIB, GIB = 1 << 20, 1 << 30


def gib(size: float) -> str:
    """Return a size in bytes as text in GiB, or in MiB if it is small."""
    return f"{size / GIB:,.1f} GiB" if abs(size) >= GIB / 10 else f"{size / MIB:,.1f} MiB"


class EngineMemory(StrictModel):
    """Memory and KV cache of a loaded engine. Bytes are those of one GPU, tokens those of one copy of the model."""

    kv_cache_tokens: int | None = Field(None, ge=0)
    """Capacity of the KV cache in tokens, as vLLM counts it."""
    kv_cache_concurrency: float | None = Field(None, ge=0)
    """Requests of the engine's greatest length that the KV cache holds at the same time."""
    weights: int | None = Field(None, ge=0)
    """Bytes of the weights on the fullest GPU, by vLLM's own model class. None: not known, or a draft model or an adapter
    takes memory too."""
    kv_cache: int | None = Field(None, ge=0)
    """Bytes of the KV cache on this GPU. None: not known."""
    usable: int | None = Field(None, ge=0)
    """Bytes of a GPU that vLLM may use. None: on a CPU, or the size of the KV cache was set."""
    max_num_batched_tokens: int = Field(ge=1)
    max_num_seqs: int = Field(ge=1)

    @property
    def other(self) -> int | None:
        """Bytes that are neither weights nor KV cache: activations, CUDA graphs, libraries. None: not known."""
        if self.usable is None or self.weights is None or self.kv_cache is None:
            return None
        return max(self.usable - self.weights - self.kv_cache, 0)
