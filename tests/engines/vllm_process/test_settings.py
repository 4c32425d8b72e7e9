import pytest

from regrade.cli.main import run
from regrade.engines.vllm import VllmEngine
from regrade.settings.errors import SettingsError

VALUE = "v4lue"


@pytest.mark.parametrize(
    ("pair", "name"),
    [
        (f"hf_token={VALUE}", "hf_token"),
        (f"--hf-token={VALUE}", "--hf-token"),
        (f"HF_TOKEN={VALUE}", "HF_TOKEN"),
        (f"token={VALUE}", "token"),
        (f"api_key={VALUE}", "api_key"),
        (f"apikey={VALUE}", "apikey"),
        (f"my_password={VALUE}", "my_password"),
        (f"client_secret={VALUE}", "client_secret"),
        (f"secret_id={VALUE}", "secret_id"),
        (f"aws_credentials={VALUE}", "aws_credentials"),
        (
            f'model_loader_extra_config={{"a": 1, "s3_secret_access_key": "{VALUE}"}}',
            "s3_secret_access_key",
        ),
        (f"model_loader_extra_config={{token: {VALUE}}}", "token"),
    ],
)
def test_an_argument_with_the_name_of_a_secret_is_refused_and_its_value_not_shown(
    pair: str, name: str
):
    with pytest.raises(SettingsError, match=rf"{name}' has the name of a secret") as caught:
        VllmEngine(extra=("seed=1", pair))

    assert VALUE not in str(caught.value)


@pytest.mark.parametrize(
    "pair",
    [
        "tokenizer=some/path",
        "tokenizer_mode=slow",
        "skip_tokenizer_init=true",
        "max_num_batched_tokens=2048",
        "long_prefill_token_threshold=4",
        "attention_backend=TRITON_ATTN",
        'hf_overrides={"rope_parameters": {"factor": 2.0}, "num_key_value_heads": 8}',
        "hf_overrides={keys: 1}",
    ],
)
def test_arguments_of_vllm_are_no_secrets(pair: str):
    assert VllmEngine(extra=(pair,)).extra == (pair,)


def test_the_command_line_refuses_a_secret_without_showing_it(capfd: pytest.CaptureFixture[str]):
    arguments = ["--model", "m", "--benchmark", "gsm8k", "--engine.extra", f"hf_token={VALUE}"]

    assert run(["generate", *arguments]) == 2

    out, err = capfd.readouterr()
    assert "has the name of a secret" in err
    assert VALUE not in out + err
