"""Configuration of Sphinx for the site of docs/ (`python -m infra.site`)."""

project = "regrade"
author = "the authors of regrade"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
"""Headings have the anchors that GitHub gives them."""
smartquotes = False
"""Else `--wait` becomes a dash."""
highlight_language = "none"
html_theme = "furo"
html_title = "regrade"
html_show_sourcelink = False
html_copy_source = False
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
"""Blocks with `...` in YAML or JSON; pages of help that begin at a lower heading."""
