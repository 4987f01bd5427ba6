"""Which server a request goes to: one server, sentinels, or the slots of a cluster."""
