from .credentialed import (
    for_owner_alone as for_owner_alone,
    is_credentialed as is_credentialed,
    refuse as refuse,
    why_credentialed as why_credentialed,
    writing as writing,
)
from .manifest_redaction import (
    names_within as names_within,
    own_data as own_data,
    private_strings as private_strings,
    public_address as public_address,
    public_manifest as public_manifest,
    public_model as public_model,
)
from .upload_check import Files as Files, check_upload as check_upload
