"""One file for each page: it asks the server as the user of the request, and fills a template.

Pages do not import each other. What a page shows is asked for here or in `readers`, never in a
template.
"""
