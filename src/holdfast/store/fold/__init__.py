"""The fold: it moves the operations of the journal into the tables, in slices.

It reads the batches of the journal and the keys in memory, and writes rows. It never changes a
value.
"""
