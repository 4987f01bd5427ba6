"""Values that change while a page is open: one poller asks the server, all open pages get the same
answer by server-sent events.

Pages and templates are elsewhere: the poller is given a function that renders its figures.
"""
