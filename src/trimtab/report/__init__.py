"""One self-contained HTML page and one JSON file about a compression run, pictures first."""

from trimtab.report.data import Measure, Metric, ProjectionRow, RunReport, Sample, Sizes, Stage
from trimtab.report.figures import importance_figure, rank_figure
from trimtab.report.write import read_report, write_report

__all__ = [
    "Measure",
    "Metric",
    "ProjectionRow",
    "RunReport",
    "Sample",
    "Sizes",
    "Stage",
    "importance_figure",
    "rank_figure",
    "read_report",
    "write_report",
]
