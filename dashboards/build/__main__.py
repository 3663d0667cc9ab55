"""Write the dashboards: `python -m dashboards.build [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from dashboards.build import exporter, fleet, job, node
from dashboards.build.page import build


def main(folder: Path) -> None:
    """Write one file for each page."""
    for page in (fleet.PAGE, node.PAGE, job.PAGE, exporter.PAGE):
        (folder / f"{page.uid}.json").write_text(build(page), encoding="utf-8")


main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
