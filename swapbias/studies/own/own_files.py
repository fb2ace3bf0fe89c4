"""The files of a user's own study: their names, and the columns that each table must have."""

from collections.abc import Mapping

Files = Mapping[str, bytes]  # the content of each file of a study, by its name

DECLARATION = "study.toml"
TEMPLATES = "templates.csv"
SLOTS = "slots.csv"
CONDITIONS = "conditions.csv"
WORDINGS = "wordings.csv"
LEXICON = "lexicon.csv"
PROMPTS = "prompts.csv"
# of searches
DOCUMENTS = "documents.csv"
EDITS = "edits.csv"
# of candidates to rank
CVS = "cvs.csv"
NAMES = "names.csv"
REQUIRED = {
    TEMPLATES: ("template",), SLOTS: ("pair", "group"), CONDITIONS: ("condition",),
    WORDINGS: ("template_id", "wording", "template"), LEXICON: ("word", "group"), PROMPTS: ("text",),
    DOCUMENTS: ("text",), EDITS: ("edit", "usual", "other"), CVS: ("job", "cv"), NAMES: ("group", "name"),
}  # fmt: skip
STUDY_FILES = (DECLARATION, *REQUIRED)
