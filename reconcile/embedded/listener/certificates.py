"""The certificate authority that the embedded server creates at every start.

It lives as long as the process and needs no configuration, so trustme is enough.
"""

import ssl

import trustme
from attrs import frozen


@frozen
class ServingCertificate:
    context: ssl.SSLContext
    ca_pem: bytes


def make_certificate(*hosts: str) -> ServingCertificate:
    """A new CA, and its certificate for `hosts` (names or addresses) and for loopback.

    The CA's key is dropped. The server's key stays in memory, except while `ssl` reads it: it can read it
    only from a file, which is private and removed at once.
    """
    authority = trustme.CA(organization_name="reconcile-runtime embedded API server")
    names = dict.fromkeys((*hosts, "127.0.0.1", "::1", "localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert(*names).configure_cert(context)
    return ServingCertificate(context, authority.cert_pem.bytes())
