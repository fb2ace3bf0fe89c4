"""Tell whose gender a word shows in a clinical note: the patient's, or a relative's, a clinician's, another's.

``Persons.decide`` says of every gendered word why it stays. Nouns and titles (``nouns``) are decided by rules over
what stands beside them (``person_rules.csv``, the first that fits). Pronouns of the patient's gender with nobody else
named shortly before (``mentions``) are the patient's, which is decided for all of a block at once; of the rest a
logistic model (``pronouns``) tells whether they mean the person before them: what stands beside the pronoun, what its
subject does, what that person did, whom the pronouns before it stood for. A second one (``doubt``) says how likely
each decision is wrong. Their weights (``antecedent_weights.csv``, ``doubt_weights.csv``) are fitted by
``scripts/fit_weights.py`` to development notes of ``clinical_swaps``. All text is bytes, as it stands in the buffer,
so that offsets need no translation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
