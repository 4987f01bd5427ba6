"""Who may do what through the dashboard: sessions, permissions, tokens of forms, headers, secrets.

The server itself enforces its ACL: each user's commands go over a connection of that user. What is
here decides what a page offers, and that a request was meant by the person at the browser.
"""
