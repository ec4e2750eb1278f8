"""The sections of a report, a module and a template each.

`section(comparison)` gives plain values for the template of the module's name, or None where there is nothing to say.
The templates escape everything; the only markup that comes from values is that of ragindex_eval.report.plots.
"""
