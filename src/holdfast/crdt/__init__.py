"""Values that several replicas change at once, and that become equal on all of them.

Pure: no I/O, no clock of its own, nothing of Holdfast but errors. Each value has

- local operations: they look at the value and return an *effect*, a tuple of plain data that
  msgpack can encode. They change nothing;
- `integrate(effect)`: it applies an effect of any replica, and returns the rows that changed as
  `(sub, new, old)`. To integrate an effect twice is to integrate it once;
- `merge(rows, seen, other_seen)`: it takes over the state of another replica. The two vectors say
  what each side has seen;
- `rows()` and `apply(sub, row)`: the state, row by row, for files and snapshots;
- `view()`: what a client sees.

Effects have to arrive in causal order; causal_log.py says why they do.
"""
