"""Readers of queues, builds, semaphores and replicas: a client goes in, dataclasses come out.

No HTML and no HTTP here. A reader does limited work: SCAN with a budget, pipelines, ranges with
limits. It never unpickles. A command that the user may not run gives None, not an error.
"""
