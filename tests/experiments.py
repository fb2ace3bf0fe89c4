"""Experiments of tests: fields by name, each put into the section that has it."""

from swapbias.studies import Experiment, load_study
from swapbias.studies.experiment import Compares, Design, Reads, Shows, Words

SECTIONS = {"reads": Reads, "compares": Compares, "design": Design, "shows": Shows, "words": Words}


def experiment(**fields):
    """An experiment with these fields; a TypeError names those that no section has."""
    sections = {}
    for name in [*fields]:
        section = next(
            (
                candidate
                for candidate, of_class in SECTIONS.items()
                if name in of_class.model_fields
            ),
            None,
        )
        if section:
            sections.setdefault(section, {})[name] = fields.pop(name)
        elif name not in Experiment.model_fields:
            raise TypeError(f"no section of an experiment has {name}")
    built = {section: SECTIONS[section](**values) for section, values in sections.items()}
    return Experiment(**fields, **built)


def uncontrolled(study):
    """A study whose questions are measured also where their positive control was not audited."""
    loaded = load_study(study)
    experiments = [one.changed(design={"controls": {}}) for one in loaded.experiments]
    return loaded.changed(experiments=tuple(experiments))
