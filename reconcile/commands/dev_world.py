"""Where `reconcile dev` keeps the objects of an operator between runs."""

from pathlib import Path

from reconcile.commands.problems import writing_files

FOLDER = ".reconcile"


def own_world(module: str) -> Path:
    """The folder of an operator: in the project, so that it goes where the project goes, and git ignores it.

    Raises Problem if it cannot be made.
    """
    home = Path(FOLDER)
    with writing_files(home):
        home.mkdir(exist_ok=True)
        ignoring = home / ".gitignore"
        if not ignoring.exists():
            ignoring.write_text("*\n")
    return home / module.partition(":")[0]
