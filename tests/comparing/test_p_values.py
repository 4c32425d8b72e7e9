"""P-values as text."""

import pytest

from regrade.comparing.text import p_text
from regrade.text.markdown import escape


@pytest.mark.parametrize(
    ("p", "text"), [(None, "-"), (1e-9, "below 0.0001"), (0.0312, "0.0312"), (0.5, "0.50")]
)
def test_a_p_value_needs_no_escaping_on_pages(p: float | None, text: str):
    assert p_text(p) == text
    assert escape(text) == text
