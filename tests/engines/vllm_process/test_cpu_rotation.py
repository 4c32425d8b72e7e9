"""Models whose queries vLLM's kernel for the CPU rotates wrongly."""

from types import SimpleNamespace

import pytest

from regrade.engines.vllm_process.cpu import check_rotation
from regrade.settings.errors import SettingsError


def config(*, latent: bool, **rope: object) -> SimpleNamespace:
    """The part of vLLM's `ModelConfig` that is read."""
    text = SimpleNamespace(model_type="deepseek_v3", rope_parameters=rope)
    return SimpleNamespace(use_mla=latent, hf_text_config=text)


def test_latent_attention_with_plain_positions_is_refused():
    with pytest.raises(SettingsError, match="wrong answers for this model on a CPU"):
        check_rotation(config(latent=True, rope_type="default"))  # type: ignore[arg-type]


def test_scaled_positions_and_other_attention_are_not():
    check_rotation(config(latent=True, rope_type="yarn", factor=40))  # type: ignore[arg-type]
    check_rotation(config(latent=False, rope_type="default"))  # type: ignore[arg-type]


@pytest.mark.vllm
def test_the_kernel_of_this_vllm_is_wrong_for_queries_with_a_dimension_of_heads():
    """Once it is right, `check_rotation` can go."""
    import torch
    from vllm import _custom_ops
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    torch.manual_seed(0)
    tokens, heads, size = 4, 2, 64
    angles = torch.arange(8)[:, None] / 10_000 ** (torch.arange(0, size, 2) / size)
    cache = torch.cat([angles.cos(), angles.sin()], dim=-1)
    queries, keys = torch.randn(tokens, heads, size), torch.randn(tokens, 1, size)
    flat, of_heads = queries.clone().view(tokens, -1), queries.clone()
    for form in (flat, of_heads):
        _custom_ops.rotary_embedding(torch.arange(tokens), form, keys.clone(), size, cache, False)

    even, odd = queries[..., 0::2], queries[..., 1::2]
    cos, sin = angles[:tokens, None].cos(), angles[:tokens, None].sin()
    right = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
    torch.testing.assert_close(flat.view_as(right), right)
    assert not torch.allclose(of_heads, right)
