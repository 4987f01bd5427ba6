"""Values that change while a page is open: one poller asks the server, all open pages get the same
answer by server-sent events."""
