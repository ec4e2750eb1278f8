"""Plots of a report: pure functions from plain values to inline SVG text.

They use no plotting library and no script; eval/ragindex_eval/report/plots/svg.py gives the reasons. Every figure is
drawn with its 95 % interval if it has one, and shows its numbers in a tooltip. Methods without a figure are listed
under the plot.
"""

from ragindex_eval.report.plots.axes import Axis, Figure
from ragindex_eval.report.plots.charts import Curve, Dot, DotGroup, Point, draw_curves, draw_dots, draw_scatter

__all__ = ["Axis", "Curve", "Dot", "DotGroup", "Figure", "Point", "draw_curves", "draw_dots", "draw_scatter"]
