"""Values that change while a page is open: one poller asks the server, and all open pages get the
same answer as server-sent events.

Pages and templates are elsewhere: the poller gets a function that renders its figures.
"""
