from .credentialed import (
    NOTE as NOTE,
    is_credentialed as is_credentialed,
    mark as mark,
    refuse as refuse,
    texts_stay as texts_stay,
)
from .gate import Files as Files
from .redact import (
    own_data as own_data,
    private_strings as private_strings,
    public_manifest as public_manifest,
    public_model as public_model,
)
from .shapes import left_out as left_out, shaped as shaped
