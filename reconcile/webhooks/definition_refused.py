"""The error of a definition that may not be changed, for modules that need nothing else of a rollout."""


class DefinitionRefused(Exception):
    """A definition may not be changed to the versions of the classes; the text says why and what to do."""

    def __init__(self, definition: str, problem: str) -> None:
        super().__init__(problem)
        self.definition = definition
