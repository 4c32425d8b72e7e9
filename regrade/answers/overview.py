"""The card of a repository, updated with the answer sets and scorings of a commit.

A row of its table is made of the manifest and the score files of an answer set, and notes their digest. If these files
did not change since, the row is kept: a commit reads the files of the answer sets that it changes, not of all others.
"""

import functools
import hashlib
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

import pyarrow as pa
import yaml

from regrade.answers.base import Repository, StoredFile
from regrade.answers.content import content_hashes
from regrade.answers.documents import json_bytes, read_manifest
from regrade.answers.manifest import Manifest
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet, manifest_paths
from regrade.records.columns import GENERATION_SCHEMA, IMAGE_SCHEMA
from regrade.records.rubrics.facts import answers_per_question, judge_run
from regrade.records.specification import IMAGES, Specification
from regrade.settings.errors import DamagedAnswersError
from regrade.stats.metrics import average_name
from regrade.text.markdown import escape

# The dataset card: a table of answer sets, and the YAML for `load_dataset(repository, "gsm8k")` and the Hub's viewer;
# images are in configurations of their own, such as `mmmu-images`.
#
# Text written by people stays byte for byte: regrade adds missing `configs`, `dataset_info` and `tags`, and replaces
# the section between its two marks. Each benchmark is a configuration with a single split `train`, the name that
# `datasets` gives to rows without splits. `dataset_info` names the columns, so that `datasets` also reads shards of
# format versions that lack some of them: it fills these with nulls.

BEGIN = "<!-- regrade:begin (this part is written anew at every change) -->"
END = "<!-- regrade:end -->"
TAGS = ("regrade", "evaluation")
_FRONT = re.compile(
    r"\A(\ufeff?---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE
)
_SECTION = re.compile(
    r"<!-- regrade:begin\b(?:(?!<!-- regrade:begin\b).)*?<!-- regrade:end -->", re.DOTALL
)
_CONFIG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FILES = re.compile(r" <!-- files ([0-9a-f]{16}) --> \|$")
_IMAGE_FILE = re.compile(rf"{IMAGES}/[^/]+/part-[^/]+\.parquet")
_HEAD = (
    "| Benchmark | Model | Answers | State | Scores | Answer set |",
    "|---|---|---:|---|---|---|",
)
_TITLE = "# Answers and scores\n\nStored by regrade: generated once, scored as often as needed.\n\n"


def noted_lines(existing: str | None) -> dict[str, str]:
    """Return the lines of the existing table by the digest of their files, as far as it is noted."""
    sections = _SECTION.findall(existing or "")
    lines = sections[-1].splitlines() if sections else []
    return {match[1]: line for line in lines if (match := _FILES.search(line))}


def render_card(
    existing: str | None, lines: Mapping[str, str], images: Collection[str] = ()
) -> str:
    """Return the card with an updated table and updated `configs`.

    Args:
        existing: Current card, line ends unchanged; None if it does not exist.
        lines: Line of each answer set in the table, by its folder below `answers`.
        images: Folders of benchmarks whose images are kept.
    """
    folders = sorted(lines, key=lambda folder: folder.split("/"))
    benchmarks = (folder.partition("/")[0] for folder in folders)
    files = {name: f"answers/{name}/*/*/part-*.parquet" for name in benchmarks}
    for folder in sorted(images):
        files.setdefault(f"{folder}-{IMAGES}", f"{IMAGES}/{folder}/part-*.parquet")
    configs = {name: path for name, path in files.items() if _CONFIG_NAME.fullmatch(name)}
    table = "\n".join([*_HEAD, *(lines[folder] for folder in folders)])
    return _with_section(
        _with_front_matter(existing or _TITLE, configs), f"{BEGIN}\n\n{table}\n\n{END}"
    )


def _with_section(text: str, section: str) -> str:
    front = _FRONT.match(text)  # our marks inside of it are a person's
    if sections := list(_SECTION.finditer(text, front.end() if front else 0)):
        return text[: sections[-1].start()] + section + text[sections[-1].end() :]
    return text + "\n" * (2 - min(2, len(text) - len(text.rstrip("\n")))) + section + "\n"


def _with_front_matter(text: str, configs: Mapping[str, str]) -> str:
    match = _FRONT.match(text)
    if match is None:
        return "---\n" + _completed("", configs) + "---\n\n" + text
    return match[1] + _completed(match[2], configs) + match[3] + text[match.end() :]


def _completed(front: str, configs: Mapping[str, str]) -> str:
    """Return the YAML with missing entries added; unchanged if it is not a mapping or not YAML."""
    for key in ("tags", "configs", "dataset_info"):
        try:
            root = _composed(front)
        except (yaml.YAMLError, RecursionError):  # RecursionError: absurdly deep nesting
            return front
        wanted = dict.fromkeys(TAGS, "") if key == "tags" else configs
        if key == "dataset_info":  # not for a configuration that a person wrote
            wanted = {name: path for name, path in configs.items() if f"path: {path}" in front}
        if root is None:
            front += _block(key, wanted)
        elif isinstance(root, yaml.MappingNode) and not root.flow_style:
            front = _extended(front, root, key, wanted)
    return front


@functools.lru_cache(maxsize=4)
def _composed(front: str) -> yaml.Node | None:
    """Nodes of the YAML, to read only; the last ones are kept, since most commits leave it as it is."""
    return yaml.compose(front, Loader=yaml.SafeLoader)


def _extended(front: str, root: yaml.MappingNode, key: str, wanted: Mapping[str, str]) -> str:
    value = next((value for name, value in root.value if name.value == key), None)
    if value is None:
        return front + ("" if front.endswith("\n") else "\n") + _block(key, wanted)
    if not isinstance(value, yaml.SequenceNode) or value.flow_style or not value.value:
        return front  # written in a style that cannot be extended safely
    listed = set(_names(value))
    missing = {name: path for name, path in wanted.items() if name not in listed}
    lines = front.splitlines(keepends=True)
    after = value.value[-1].end_mark.line + (value.value[-1].end_mark.column > 0)
    while after > 0 and not lines[after - 1].strip():
        after -= 1
    if missing and not lines[after - 1].endswith("\n"):
        lines[after - 1] += "\n"
    lines.insert(after, "".join(_items(key, missing, " " * value.start_mark.column)))
    return "".join(lines)


def _names(node: yaml.SequenceNode) -> Iterator[str]:
    for item in node.value:
        if isinstance(item, yaml.ScalarNode):
            yield item.value
        elif isinstance(item, yaml.MappingNode):
            yield from (str(v.value) for name, v in item.value if name.value == "config_name")


def _block(key: str, wanted: Mapping[str, str]) -> str:
    return f"{key}:\n" + "".join(_items(key, wanted, "")) if wanted else ""


def _items(key: str, wanted: Mapping[str, str], indent: str) -> Iterator[str]:
    return (_item(key, name, path, indent) for name, path in wanted.items())


def _item(key: str, name: str, path: str, indent: str) -> str:
    scalar = yaml.safe_dump(name, default_flow_style=True).splitlines()[0]
    if key == "tags":
        return f"{indent}- {scalar}\n"
    if key == "dataset_info":
        schema = IMAGE_SCHEMA if path.startswith(IMAGES) else GENERATION_SCHEMA
        features = "".join(f"{indent}  - {_feature(field)}\n" for field in schema)
        return f"{indent}- config_name: {scalar}\n{indent}  features:\n{features}"
    return (
        f"{indent}- config_name: {scalar}\n"
        f"{indent}  data_files:\n"
        f"{indent}  - split: train\n"
        f"{indent}    path: {path}\n"
    )


def _feature(field: "pa.Field[pa.DataType]") -> str:
    if pa.types.is_list(field.type):
        return f"{{name: {field.name}, list: {_dtype(field.type.value_type)}}}"
    return f"{{name: {field.name}, dtype: {_dtype(field.type)}}}"


def _dtype(type_: pa.DataType) -> str:
    """Return the name of an Arrow type in `datasets`."""
    names: dict[pa.DataType, str] = {
        pa.float64(): "float64",
        pa.float32(): "float32",
        IMAGE_SCHEMA.field("image").type: "image",
    }
    return names.get(type_, str(type_))


logger = logging.getLogger(__name__)

CARD = "README.md"
ROW_FORMAT = "2"
"""Part of the digests; raise it when a row shows something else of the same files."""


def updated_card(
    repository: Repository,
    head: str | None,
    new: Mapping[str, Manifest | ScoreFile],
    images: Collection[str] = (),
) -> dict[str, bytes]:
    """Return the card with an updated table of answer sets, by its path; empty if the card cannot be changed.

    Damaged answer sets and scorings are left out of the table: they must not block publishing.

    Args:
        repository: Repository of the card.
        head: Newest revision; None before the first commit.
        new: Manifests and score files of the commit, by path.
        images: Paths of the images of the commit.
    """
    stored = repository.files(head) if head is not None else {}
    existing = None
    if head is not None and CARD in stored:
        # Read as bytes, to keep the line ends that people used.
        content = repository.fetch(CARD, head).read_bytes()
        try:
            existing = content.decode()
        except UnicodeDecodeError:  # huggingface_hub commits no such card
            logger.warning(
                "'%s' of '%s' is not UTF-8; its table is not updated", CARD, repository.uri
            )
            return {}
    noted = noted_lines(existing)
    lines: dict[str, str] = {}
    for folder, documents in _by_set(stored, new).items():
        digest = _digest(documents, stored, new)
        with suppress(DamagedAnswersError):
            lines[folder] = noted.get(digest) or _line(
                repository, head, documents, stored, new, digest
            )
    pictured = {path.split("/")[1] for path in (*stored, *images) if _IMAGE_FILE.fullmatch(path)}
    return {CARD: render_card(existing, lines, pictured).encode()}


def _by_set(
    stored: Mapping[str, StoredFile], new: Mapping[str, Manifest | ScoreFile]
) -> dict[str, list[str]]:
    """Return the paths of manifest and score files (sorted, so the manifest first) by folder of the answer set."""
    paths = sorted({*stored, *new})
    by_set = {
        path.removeprefix("answers/").removesuffix("/manifest.json"): [path]
        for path in manifest_paths(path for path in paths if path.startswith("answers/"))
    }
    for path in paths:
        above, _, name = path.rpartition("/")
        folder = above.removeprefix("scores/")
        if path.startswith("scores/") and name.endswith(".json") and folder in by_set:
            by_set[folder].append(path)
    return by_set


def _digest(
    documents: list[str], stored: Mapping[str, StoredFile], new: Mapping[str, Manifest | ScoreFile]
) -> str:
    """Return 16 hex digits for the contents of documents; "" if the store has no git sha1 of one of them."""
    oids = [
        content_hashes(json_bytes(new[p]))[2] if p in new else stored[p].git_oid for p in documents
    ]
    if None in oids:
        return ""
    lines = "\n".join(f"{oid} {path}" for oid, path in zip(oids, documents, strict=True))
    return hashlib.sha256(f"{ROW_FORMAT}\n{lines}".encode()).hexdigest()[:16]


def _line(
    repository: Repository,
    head: str | None,
    documents: list[str],
    stored: Mapping[str, StoredFile],
    new: Mapping[str, Manifest | ScoreFile],
    digest: str,
) -> str:
    """Return the line of an answer set; scorings of answers that are gone are left out."""
    path, *score_paths = documents
    manifest = new.get(path)
    if not isinstance(manifest, Manifest):
        manifest = read_manifest(repository, path, str(head))
    answers = AnswerSet(repository, str(head), manifest)
    # The other shards come with this commit.
    there = [s.sha256 for s in manifest.shards if f"{answers.folder}/{s.name}" in stored]
    gone = answers.only(there).damaged_shards() if there else {}
    scores: list[str] = []
    for score_path in score_paths:
        with suppress(DamagedAnswersError):
            file = new.get(score_path)
            if not isinstance(file, ScoreFile):
                file = answers.score_file(stored[score_path])
            if not gone.keys() & set(file.answers):
                scores.append(_score(file, manifest.specification))
    state = [str(manifest.stopped or manifest.state)]
    if manifest.failed:
        state.append(f"{manifest.failed:,} failed")
    if gone:
        state.append(f"{len(gone):,} of {len(manifest.shards):,} shards missing")
    specified = manifest.specification
    cells = (specified.benchmark.name, specified.model.name, f"{manifest.rows:,}", ", ".join(state))
    shown = (*map(escape, cells), "<br>".join(scores), escape(manifest.answer_set_id))
    return f"| {' | '.join(shown)}{f' <!-- files {digest} -->' if digest else ''} |"


def _score(file: ScoreFile, specification: Specification) -> str:
    """Return a scoring; the card does not follow labels, so that a judge's result is marked as uncorrected."""
    judged = "uncorrected" if judge_run(specification) is not None else ""
    title = (file.title, average_name(answers_per_question(specification)), judged)
    found = file.summary.overall
    value = "no score"
    if found.accuracy is not None:
        value = file.scale.mean_text(found.accuracy, found.accuracy_stderr, 2)
    return f"{escape(' '.join(filter(None, title)))}: {value} (n = {found.n:,})"
