from .credentialed import (
    HOW_TO_READ as HOW_TO_READ,
    WARNING as WARNING,
    for_owner_alone as for_owner_alone,
    is_credentialed as is_credentialed,
    is_mimic_columns as is_mimic_columns,
    is_mimic_name as is_mimic_name,
    mark as mark,
    refuse as refuse,
    why_credentialed as why_credentialed,
    writing as writing,
)
from .manifest_schema import (
    AND as AND,
    OWN_ENDPOINT as OWN_ENDPOINT,
    OWN_NOTES as OWN_NOTES,
    names_within as names_within,
    own_data as own_data,
    private_strings as private_strings,
    public_address as public_address,
    public_manifest as public_manifest,
    public_model as public_model,
)
from .upload_check import Files as Files, check_upload as check_upload
