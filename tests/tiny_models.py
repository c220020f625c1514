"""Models of a few thousand seeded numbers, saved to disk as Nomic's and BGE's are: nothing is downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_WORDS = (
    "the a and of to in is how do i money back refund cashier till paper roll red light printer bank account takings "
    "passcode digits key office search query document passage : _ ? ."
)


def save_embedder(
    folder: Path, *, kind: str = "bert", prompts: dict[str, str] | None = None, spoil: bool = False
) -> Path:
    """A BERT, or Nomic's kind of it, of two layers and 16 dimensions with mean pooling.

    ``spoil`` makes the word "red" NaN.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel, NomicBertModel

    inner = folder / "bert"
    torch.manual_seed(7)
    model = NomicBertModel(_config("NomicBertConfig")) if kind == "nomic" else BertModel(_config())
    if spoil:
        with torch.no_grad():
            model.embeddings.word_embeddings.weight[_vocabulary().index("red")] = float("nan")
    model.save_pretrained(inner)
    _tokenizer(folder).save_pretrained(inner)
    transformer = Transformer(str(inner))
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    SentenceTransformer(modules=[transformer, pooling], prompts=prompts, device="cpu").save(str(folder / "model"))
    return (folder / "model").rename(folder / "nomic-embed-text-tiny") if kind == "nomic" else folder / "model"


def save_cross_encoder(folder: Path, *, labels: int = 1, spoil: bool = False) -> Path:
    """A BERT that scores pairs with ``labels`` numbers."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(11)
    model = BertForSequenceClassification(_config(num_labels=labels))
    with torch.no_grad():
        model.classifier.weight.normal_(0, 3)
        if spoil:
            model.bert.embeddings.word_embeddings.weight[_vocabulary().index("red")] = float("nan")
    target = folder / "ranker"
    model.save_pretrained(target)
    _tokenizer(folder).save_pretrained(target)
    return target


def _vocabulary() -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = [*letters, *(f"##{letter}" for letter in letters), *_WORDS.split()]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(pieces)]


def _config(kind: str = "BertConfig", **more: Any) -> Any:
    import transformers

    return getattr(transformers, kind)(
        vocab_size=len(_vocabulary()), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=128, initializer_range=0.5, **more,
    )  # fmt: skip


def _tokenizer(folder: Path) -> Any:
    from transformers import BertTokenizer

    return BertTokenizer(vocab={word: place for place, word in enumerate(_vocabulary())}, model_max_length=128)
