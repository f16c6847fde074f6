"""Rules in CEL, the one part that needs a CEL library: imported only for a schema that has rules."""

from reconcile.embedded.schema.cel.cel_rules import check_rules
from reconcile.embedded.schema.cel.evaluation import RuleNode, evaluate, rule_tree, tree_of

__all__ = ["RuleNode", "check_rules", "evaluate", "rule_tree", "tree_of"]
