"""Features that the engine notifies: channels, tracking, MONITOR, slow log, latency, pauses,
counters.

Each feature is one class with its own state. The commands that show it are in `commands`.
"""
