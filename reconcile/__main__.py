"""`python -m reconcile` is the `reconcile` command."""

import sys

from reconcile.commands import main

sys.exit(main())
