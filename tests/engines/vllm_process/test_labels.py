"""Labels with real tokenizers of different kinds, trained in the tests."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regrade.engines.vllm_process.labels import LabelTokens, Passes, label_passes, single_tokens

TEXT = ["Question: what is it?\nAnswer: A", "Answer: B\n\nAnswer: C", "Answer: D and A B C D"] * 20
LABELS = (" A", " B", " C", " D")


def byte_level(vocab_size: int = 400) -> Tokenizer:
    """Like GPT-2, Llama 3, Qwen: a space belongs to the word after it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def bytes_only() -> Tokenizer:
    """No merges: a space and a letter are two tokens."""
    return byte_level(vocab_size=256)


def metaspace() -> Tokenizer:
    """Like Llama 2: a space becomes a mark before the word, and the text begins with a mark."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    return tokenizer


def whitespace_dropping() -> Tokenizer:
    """Like BERT: tokens contain no spaces."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["?"], show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def tokenize_with(tokenizer: Tokenizer):
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]


def after(tokenize, text: str):
    """The tokens of the text with each of the labels after it."""
    return lambda labels: tokenize([text + label for label in labels])


def _decide(tokenizer: Tokenizer, text: str, labels=LABELS):
    tokenize = tokenize_with(tokenizer)
    return LabelTokens().of(text, tokenize([text])[0], labels, after(tokenize, text))


@pytest.mark.parametrize("make", [byte_level, metaspace, whitespace_dropping])
def test_a_letter_is_one_token_after_the_colon(make):
    tokenizer = make()

    tokens = _decide(tokenizer, "Question: what is it?\nAnswer:")

    assert isinstance(tokens, list)
    assert [tokenizer.id_to_token(token)[-1] for token in tokens] == ["A", "B", "C", "D"]


def test_if_space_and_letter_are_two_tokens_each_label_is_scored():
    tokenizer = bytes_only()
    text = "Answer:"

    ranking = _decide(tokenizer, text)

    start = len(tokenizer.encode(text).ids)
    assert ranking.starts == (start,) * 4
    assert [len(sequence) - start for sequence in ranking.sequences] == [2, 2, 2, 2]


def test_a_label_that_merges_with_the_end_of_the_prompt_is_scored_from_there():
    tokenizer = byte_level()
    text = "Question: what is it?\nAnswer: "  # the space belongs to the letter's token

    ranking = _decide(tokenizer, text, ("A", "B", "C", "D"))

    assert set(ranking.starts) == {len(tokenizer.encode(text).ids) - 1}


def test_labels_with_the_same_token_are_scored_separately():
    ranking = _decide(whitespace_dropping(), "Answer:", (" X", " Y"))  # both unknown

    assert isinstance(ranking, Passes)


def test_a_label_that_changes_the_tokens_of_the_prompt_is_not_a_single_token():
    assert single_tokens([1, 2, 3], [[1, 2, 4], [1, 2, 5]]) is None
    assert single_tokens([1, 2, 3], [[1, 9, 3, 4], [1, 2, 3, 5]]) is None
    assert single_tokens([1, 2, 3], [[1, 2, 3, 4], [1, 2, 3, 5]]) == [4, 5]


def test_more_labels_than_vllm_allows_in_one_pass_are_scored_separately():
    assert single_tokens([1], [[1, n] for n in range(128)]) is not None
    assert single_tokens([1], [[1, n] for n in range(129)]) is None


def test_all_labels_are_scored_from_the_earliest_change():
    assert label_passes([1, 2, 3], [[1, 2, 3, 4], [1, 7, 5]]).starts == (1, 1)


def test_prompts_with_the_same_ending_share_a_decision():
    calls = []
    tokenize = tokenize_with(byte_level())

    def counting(texts):
        calls.append(len(texts))
        return tokenize(texts)

    labels = LabelTokens()
    ending = "\nWhat is it, then, this time?\nAnswer:"
    found = [
        labels.of(t, tokenize([t])[0], LABELS, after(counting, t))
        for t in (f"{n} apples{ending}" for n in range(9))
    ]

    assert calls == [4]
    assert all(tokens == found[0] for tokens in found)


def test_prompts_with_another_ending_get_a_new_decision():
    tokenize = tokenize_with(byte_level())
    labels = LabelTokens()
    letters = ("A", "B", "C", "D")

    clean = labels.of("Answer:", tokenize(["Answer:"])[0], LABELS, after(tokenize, "Answer:"))
    merged = labels.of("Answer: ", tokenize(["Answer: "])[0], letters, after(tokenize, "Answer: "))

    assert isinstance(clean, list)
    assert isinstance(merged, Passes)
