from .own_study import (
    check_study as check_study,
    new_study as new_study,
    open_study as open_study,
    reopen_study as reopen_study,
)
