"""An HTTP/1.1 client for one server: connections that are kept, bodies as they arrive, failures told apart.

httptools parses (llhttp, the parser of Node.js); asyncio does TCP and TLS. What is here is what lies between:
when a connection may be used again, how much of a body may wait for its reader, and whether the server can
have seen a request that failed. A manager imports this instead of a client library for all servers, which
would take a quarter of its memory.
"""

from informers.http.connection import Connection
from informers.http.dialing import Dialer, Origin, Proxy
from informers.http.failures import CutOff, HttpFailure, NotConnected, NotHttp, Stage, TooLate
from informers.http.pool import Pool
from informers.http.reply import Reply
from informers.http.request_bytes import RequestForm

__all__ = [
    "Connection",
    "CutOff",
    "Dialer",
    "HttpFailure",
    "NotConnected",
    "NotHttp",
    "Origin",
    "Pool",
    "Proxy",
    "Reply",
    "RequestForm",
    "Stage",
    "TooLate",
]
