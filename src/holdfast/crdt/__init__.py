"""Values that several replicas change at the same time, and that become equal on all of them.

Pure: no I/O, no clock of its own, nothing from Holdfast but errors. Each value has

- local operations: they look at the value and return an *effect*, a tuple of plain data that
  msgpack can encode. They change nothing;
- `integrate(effect)`: it applies an effect of any replica, and returns the rows that changed as
  `(sub, new, old)`. Integrating an effect twice has the result of integrating it once;
- `merge(rows, seen, other_seen)`: it adds the state of another replica. The two vectors tell which
  events each side has seen;
- `rows()` and `apply(sub, row)`: the state, row by row, for files and snapshots;
- `view()`: the value that a client sees.

Effects have to arrive in causal order; causal_log.py explains why they do.
"""
