"""The plots of a report: pure functions from plain values to inline SVG text.

No plotting library and no script, for the reasons that eval/ragindex_eval/report/plots/svg.py gives. Every figure is
drawn with its 95 % interval where it has one, and says its numbers on pointing at it. What cannot be drawn is named
under the plot.
"""

from ragindex_eval.report.plots.axes import Axis, Figure
from ragindex_eval.report.plots.dot_plot import Dot, Group, dots
from ragindex_eval.report.plots.line_plot import Curve, curves
from ragindex_eval.report.plots.scatter_plot import Point, scatter

__all__ = ["Axis", "Curve", "Dot", "Figure", "Group", "Point", "curves", "dots", "scatter"]
