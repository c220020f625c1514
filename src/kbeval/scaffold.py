"""The files that a new project starts from."""

from __future__ import annotations

from pathlib import Path

from kbeval.errors import KbevalError
from kbeval.formats.text import write_atomically

_PACKAGE = Path(__file__).parent
_FOLDERS = ("corpus/seed_docs", "qrels", "runs", "results")


def scaffold(root: Path, config: str, *, example: bool, workflow: bool = False) -> list[str]:
    """Writes what is missing below ``root`` and overwrites nothing.

    Args:
        root: the project's folder.
        config: the name of its settings file.
        example: also write the example corpus and its questions.
        workflow: also write a workflow that gates pull requests on GitHub; the example has one too.

    Returns:
        The paths written, relative to ``root``.
    """
    files = {config: _PACKAGE / "templates" / "kbeval.toml"}
    if example or workflow:
        files[".github/workflows/kbeval.yml"] = _PACKAGE / "templates" / "workflow.yml"
    if example:
        corpus = _example_corpus()
        files["corpus/questions.cache.json"] = corpus / "questions.cache.json"
        documents = sorted((corpus / "seed_docs").glob("*.md"))
        files.update({f"corpus/seed_docs/{document.name}": document for document in documents})
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, source in files.items():
        target = root / name
        if not target.exists():
            write_atomically(target, source.read_bytes())
            written.append(name)
    return written


def _example_corpus() -> Path:
    # An installed package carries a copy; a checkout has the original beside src/.
    for folder in (_PACKAGE / "example", _PACKAGE.parents[1] / "corpus"):
        if (folder / "seed_docs").is_dir():
            return folder
    raise KbevalError("the example corpus: expected it within the package, found nothing; reinstall kbeval")
