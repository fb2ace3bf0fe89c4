"""The BiLSTM of ``swapbias train``: its network, config and tokenizer, as transformers reads them."""

from collections.abc import Iterable
from typing import Any

import torch
import transformers

MOST_TOKENS = 100_000
"""Tokens that it reads in one text."""
# Training sentences are cut like "do n't" and "it 's": other texts are cut so, too.
_WORD = r"\w+(?=n't\b)|n't\b|'\w+|\w+(?:-\w+)*|[^\w\s]"


class BiLstmConfig(transformers.PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes of a BiLSTM."""

    model_type = "bilstm"
    vocab_size: int = 1
    """Words that it knows, and 0 for all others."""
    vector_size: int = 1
    """Numbers of a word's vector."""
    units: int = 128
    """Numbers of the state of one direction."""
    pad_token_id: int | None = 0
    """Index of the token that fills shorter texts up."""


class BiLstmForSequenceClassification(transformers.PreTrainedModel):
    """Last states of both directions, dropout, one linear layer; vectors of words are not trained."""

    config_class = BiLstmConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        vectors = torch.zeros(config.vocab_size, config.vector_size)
        self.embed_tokens = torch.nn.Embedding.from_pretrained(vectors)  # type: ignore[no-untyped-call]
        self.lstm = torch.nn.LSTM(
            config.vector_size, config.units, batch_first=True, bidirectional=True
        )
        self.dropout = torch.nn.Dropout(0.25)
        self.head = torch.nn.Linear(2 * config.units, 1)
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: Any) -> None:
        """Leave weights as torch draws them."""

    def forward(
        self, input_ids: Any, attention_mask: Any, labels: Any = None, return_dict: bool = True
    ) -> Any:
        """Classify sentences of one or more words.

        Args:
            input_ids: token ids, shape (n, tokens).
            attention_mask: 1 for a token and 0 for what fills a text up, shape (n, tokens).
            labels: 1 positive, 0 negative, shape (n,); None: no loss is computed.
            return_dict: the output has names in any case.

        Returns:
            Logits of negative (always 0) and positive, shape (n, 2), and the loss.
        """
        vectors = self.dropout(self.embed_tokens(input_ids))
        lengths = attention_mask.sum(dim=1).cpu()
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            vectors, lengths, batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)
        positive = self.head(self.dropout(torch.cat([last[0], last[1]], dim=-1)))
        logits = torch.cat([torch.zeros_like(positive), positive], dim=-1)
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


transformers.AutoConfig.register(BiLstmConfig.model_type, BiLstmConfig, exist_ok=True)
transformers.AutoModelForSequenceClassification.register(
    BiLstmConfig, BiLstmForSequenceClassification, exist_ok=True
)


def word_tokenizer(words: Iterable[str]) -> Any:
    """Make a tokenizer of the lower-case words and marks of a text, contractions cut.

    >>> word_tokenizer(["she", "'s", "does", "n't", "gym-trainer"])("She’s a gym-trainer, doesn't she?")["input_ids"]
    [1, 2, 0, 5, 0, 3, 4, 1, 0]

    Args:
        words: the vocabulary, each once.

    Returns:
        A tokenizer of transformers; the token of a word is its place in the vocabulary, from 1, else 0.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    unknown = "[UNK]"
    vocabulary = {word: index for index, word in enumerate([unknown, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace("’", "'")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)
    fast_tokenizer: Any = transformers.PreTrainedTokenizerFast
    return fast_tokenizer(
        tokenizer_object=tokenizer,
        unk_token=unknown,
        pad_token=unknown,
        model_max_length=MOST_TOKENS,
    )
