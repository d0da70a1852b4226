"""Figures of reports, words and terms, and maps of texts, with readable Korean."""

from .figure import check_figure, save_figure
from .report import plot_report
from .words import plot_layers, plot_occurrences, plot_terms, plot_tokens, plot_values

__all__ = [
    "check_figure",
    "plot_layers",
    "plot_occurrences",
    "plot_report",
    "plot_terms",
    "plot_tokens",
    "plot_values",
    "save_figure",
]
