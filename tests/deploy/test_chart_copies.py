"""What the chart keeps a copy of, since Helm reads nothing outside a chart."""


def test_copies_and_the_table_of_the_readme_are_fresh(build):
    """Rules, dashboards and the README; `make generate` writes them."""
    wanted = build.files()
    assert len(wanted) > 15
    assert build.put(wanted, check=True) == []


def test_nothing_is_left_of_files_that_are_gone(build):
    """A rule file that was renamed would be installed twice."""
    assert {*build.CHART.glob("files/*/*")} - build.files().keys() == set()
