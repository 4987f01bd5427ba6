"""Permissions for the dashboard: sessions, permissions of users, tokens of forms, headers, secrets.

The server itself enforces its ACL: each user's commands go over a connection of that user. The code
here decides what a page offers, and checks that the user at the browser has meant a request.
"""
