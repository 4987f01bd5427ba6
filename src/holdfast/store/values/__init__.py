"""The data types: one class for each type, its parts, and the registry that lists all types.

A value emits the row operations of its own changes. It does not know its name, its database or the
file.
"""
