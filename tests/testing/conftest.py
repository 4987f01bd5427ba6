"""`example` and `comparison` have tests of other programs, which run in processes of their own."""

collect_ignore = ["example", "comparison"]
