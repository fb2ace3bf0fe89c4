from .credentialed import (
    FILE as FILE,
    NOTE as NOTE,
    for_owner_alone as for_owner_alone,
    is_credentialed as is_credentialed,
    is_left_over as is_left_over,
    is_mimic_columns as is_mimic_columns,
    is_mimic_name as is_mimic_name,
    mark as mark,
    refuse as refuse,
    texts_stay as texts_stay,
    why_credentialed as why_credentialed,
    writing as writing,
)
from .errors import (
    TRACEBACKS as TRACEBACKS,
    forget_notes as forget_notes,
    log_traceback as log_traceback,
    notes_read as notes_read,
    told as told,
    told_trace as told_trace,
)
from .gate import Files as Files
from .redact import (
    own_data as own_data,
    private_strings as private_strings,
    public_manifest as public_manifest,
    public_model as public_model,
)
from .shapes import left_out as left_out, shaped as shaped
