"""Encoders without a head, as ``load_model`` loads them."""

from typing import Any


class BareEncoder:
    """An ``auto_class`` of ``load_model``: the encoder alone; a pooler without weights is fine, for it is unused."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Load an encoder as transformers do.

        Args:
            model: a Hub id or local folder.
            config: the config of the model.
            settings: settings of ``AutoModel.from_pretrained``.

        Returns:
            The encoder, and what transformers say of its weights.
        """
        from transformers import AutoModel

        loaded, info = AutoModel.from_pretrained(model, config=config, **settings)
        missing = [key for key in info["missing_keys"] if "pooler" not in key]
        encoder = loaded.get_encoder() if config.is_encoder_decoder else loaded
        return encoder, {**info, "missing_keys": missing}
