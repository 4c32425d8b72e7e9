from tests.scorers.batches import read


def test_reasoning_that_the_prompt_opened_and_nothing_closed_holds_no_answer():
    assert read("number", "so 5 and then 7", "7", reasoning_open=True)["outcome"] == "unparsed"
    assert read("number", "so 5 </think> it is 7", "7", reasoning_open=True)["value"] == 1.0
    assert read("number", "so 5 and then 7", "7", reasoning_open=False)["value"] == 1.0
