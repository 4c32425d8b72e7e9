"""NLTK data in NLTK's formats, made here: enough to split sentences, tag words and know stop words."""

import json
from pathlib import Path

PUNKT = {
    "abbrev_types.txt": "dr\nmr\n",
    "collocations.tab": "",
    "ortho_context.tab": "",
    "sent_starters.txt": "",
}
TAGGER = {
    "classes": ["NN", "VB", "DT"],
    "tagdict": {"run": "VB", "write": "VB", "the": "DT", "house": "NN"},
    "weights": {"bias": {"NN": 1.0, "VB": 0.0, "DT": 0.0}},
}
STOPWORDS = "the\na\nof\nand\n"


def nltk_path() -> list[str]:
    """Folders in which NLTK looks for data; importing it takes longer than collecting all tests here."""
    import nltk

    return list(nltk.data.path)


def write_nltk_data(folder: Path) -> Path:
    punkt = folder / "tokenizers" / "punkt_tab" / "english"
    tagger = folder / "taggers" / "averaged_perceptron_tagger_eng"
    stopwords = folder / "corpora" / "stopwords"
    for place in (punkt, tagger, stopwords):
        place.mkdir(parents=True)
    for name, text in PUNKT.items():
        (punkt / name).write_text(text)
    for name, content in TAGGER.items():
        (tagger / f"{tagger.name}.{name}.json").write_text(json.dumps(content))
    (stopwords / "english").write_text(STOPWORDS)
    return folder
