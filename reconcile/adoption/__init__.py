"""The way from another framework to this one: what `reconcile adopt` reads, says, drafts and audits.

- `kopf_handlers`: the handlers of an operator on kopf, as values.
- `kopf_registry`, `kopf_modules`: where they come from.
- `kopf_source`, `kopf_subhandlers`, `kopf_settings`: what the source says besides.
- `kopf_table`: what each of kopf's names becomes.
- `kopf_report`: the same about one operator, as text and JSON.
- `cluster_reading`, `tally`: what it left in a cluster; `audit`, `audit_text`: what stands against a switch.
- `switch_plan`, `switch_run`: how that operator is stopped between its handlers.
- `switch_release`: objects that it created by half; `switch_leftovers`: what is left afterwards.
- `kopf_draft`, `kopf_draft_modules`, `kopf_draft_steps`, `kopf_draft_moving`: an operator to fill in.
- `kopf_return`, `handing_back`: how objects go back to an operator on kopf; `own_operator`: whether the new
  one still works on them.
"""

__all__: list[str] = []
