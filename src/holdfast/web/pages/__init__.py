"""One file for each page: it asks the server as the user of the request, and fills a template.

Pages do not import each other. A page asks for its values here or in `readers`, never in a
template.
"""
