"""Which server a request goes to: one server, sentinels, or the slots of a cluster.

It opens connections and sends each request to one of them. It knows no typed commands.
"""
