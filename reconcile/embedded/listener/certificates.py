"""The certificate authority that the embedded server makes for itself at every start.

trustme rather than cryptography by hand: a CA and one leaf are all there is, they live as long as the
process, and nothing about them is worth configuring. Where certificates must rotate it is the wrong tool.
"""

import ssl

import trustme
from attrs import frozen


@frozen
class ServingCertificate:
    """What the server serves with, and what its clients need to trust it."""

    context: ssl.SSLContext
    ca_pem: bytes


def make_certificate(*hosts: str) -> ServingCertificate:
    """A fresh CA, and a certificate of it for `hosts` (names or addresses) and for this machine by itself.

    The CA's key is forgotten on return. The server's key stays in memory, but for the moment in
    which `ssl` reads it: it can only do so from a file, which is private and removed at once.
    """
    authority = trustme.CA(organization_name="reconcile-runtime embedded API server")
    names = dict.fromkeys((*hosts, "127.0.0.1", "::1", "localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert(*names).configure_cert(context)
    return ServingCertificate(context, authority.cert_pem.bytes())
