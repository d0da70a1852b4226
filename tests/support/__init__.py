"""What tests share: tiny models and graphs, training runs, servers, lexicons, fake models."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
