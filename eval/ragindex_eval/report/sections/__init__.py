"""Sections of a report, with one module and one template each.

`render_NAME(comparison)` returns plain values for the template `NAME.html`, or None if the section has nothing to say.
The templates escape everything; the only markup in the values comes from ragindex_eval.report.plots.
"""
