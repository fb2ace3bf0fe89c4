from .block import Block as Block
from .doubt import Decisions as Decisions
from .persons import Persons as Persons
from .words import REASONS as REASONS, SPOUSES as SPOUSES, WHOSE as WHOSE
