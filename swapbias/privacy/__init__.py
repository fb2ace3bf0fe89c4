"""What may leave this machine: the credentialed mark, manifests without private places, the gate."""

from swapbias.privacy.credentialed import NOTE as NOTE, is_credentialed as is_credentialed
from swapbias.privacy.gate import Files as Files
from swapbias.privacy.redact import (
    own_data as own_data,
    private_strings as private_strings,
    public_manifest as public_manifest,
    public_model as public_model,
)
