"""Prompt templates (Jinja) of the two demo benchmarks.

The demo model is trained on exactly these texts: the accuracy in README.md requires the same prompts, to the character.
"""

ARITHMETIC_PROMPT = '{{ question }}\nWork it out and end with a line "#### " and the answer.'

CHOICE_BODY = (
    "Question: {{ question }}\n"
    "A. {{ choices[0] }}\n"
    "B. {{ choices[1] }}\n"
    "C. {{ choices[2] }}\n"
    "D. {{ choices[3] }}\n"
)

CHOICE_PROMPT = CHOICE_BODY + "Answer:"

CHOICE_CHAT_PROMPT = CHOICE_BODY + "Reply with the letter only."

LETTERS = "ABCD"
