"""A server's models over HTTP, by the same methods as the local objects.

    encoder = malmoi.load()                          # here
    encoder = malmoi.client.Client("http://nlp:8010")  # there

Needs nothing beyond the standard library and numpy. Refusals that pass (429 and 503), and
connections that break, are tried again, each time after a longer and partly random wait.
"""

from .client import Client
from .transport import ServerError

__all__ = ["Client", "ServerError"]
