"""Name what there is where a user names something that is not there."""

import unicodedata


def composed(text: str) -> str:
    """A name in the normal form NFC: composed and decomposed accents are one name."""
    return unicodedata.normalize("NFC", text)
