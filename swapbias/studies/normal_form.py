"""Write names in one normal form, so that what looks alike is one name."""

import unicodedata


def composed(text: str) -> str:
    """Write a name in the normal form NFC: composed and decomposed accents are one name.

    Args:
        text: a name.
    """
    return unicodedata.normalize("NFC", text)
