"""Rules in CEL. Imported only for a schema that has some: it is the one part that needs a CEL library."""

from reconcile.embedded.schema.cel.evaluation import RuleNode, evaluate, rule_tree
from reconcile.embedded.schema.cel.rules import check_rules

__all__ = ["RuleNode", "check_rules", "evaluate", "rule_tree"]
