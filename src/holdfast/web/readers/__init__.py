"""What the dashboard reads of queues, builds, semaphores, replicas: client in, dataclasses out.

No HTML and no HTTP here. A reader does bounded work: SCAN with a budget, pipelines, ranges with
limits. It never unpickles. A command that the user may not run gives None, not an error.
"""
