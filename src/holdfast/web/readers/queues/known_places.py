"""Where a queue is found without a search: under the name that a library uses by itself, and in a
set in which a library keeps the names of its queues. No I/O.

A search through a million keys takes minutes. Most users have one of these queues.
"""

from holdfast.web.readers.queues.recognise import LIST

# One of them exists if a library is used as its documentation begins. `recognise` has the patterns.
FIRST_KEYS = (
    b"_kombu.binding.celery",
    b"rq:queue:default",
    b"arq:queue",
    b"saq:default:queued",
    b"saq:default:incomplete",
    b"dramatiq:default",
)
# A set of keys, each of which is the list of one queue. RQ keeps queues there that are empty, too.
INDEX, INDEXED = b"rq:queues", LIST
