"""Characters that a column can hold."""


def whole_characters(text: str) -> str:
    """Return a text with halves of characters, which UTF-8 and so no column can hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
