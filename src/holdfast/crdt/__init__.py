"""Values that several replicas change at once and that come out the same everywhere.

Pure: no I/O, no clock of its own, nothing of Holdfast but errors. Each value has

- local operations, which look at the value and return an *effect*: a tuple of plain data that
  msgpack can hold. They change nothing;
- `integrate(effect)`, which applies an effect, whoever made it, and returns the rows that it
  changed as `(sub, new, old)`; a second time changes nothing;
- `merge(other, seen, other_seen)`, which takes over another replica's state, by what each of the
  two has seen;
- `rows()` and `apply(sub, row)`, its state row by row: for files and for snapshots;
- `view()`, what a client sees.

Effects have to arrive in causal order: log.py says how that comes about.
"""
