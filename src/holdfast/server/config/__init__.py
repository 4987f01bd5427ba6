"""Configuration: the table of parameters, how values are read and written, files, secrets and TLS.

This room knows no running server. `core/live_settings.py` applies changes to one.
"""
