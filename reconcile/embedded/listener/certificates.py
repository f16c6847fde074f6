"""The certificate authority of the embedded server: a new one at every start, or one that is kept.

It needs no configuration, so trustme is enough.
"""

import ssl

import trustme
from attrs import field, frozen


@frozen
class Authority:
    """A certificate authority and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@frozen
class ServingCertificate:
    context: ssl.SSLContext
    ca_pem: bytes


def make_authority() -> Authority:
    made = trustme.CA(organization_name="reconcile-runtime embedded API server")
    return Authority(made.cert_pem.bytes(), made.private_key_pem.bytes())


def make_certificate(*hosts: str, authority: Authority | None = None) -> ServingCertificate:
    """A certificate for `hosts` (names or addresses) and for loopback, of `authority` or of a new one.

    The key of a new authority is dropped. The server's key stays in memory, except while `ssl` reads it: it
    can read it only from a file, which is private and removed at once.
    """
    authority = authority or make_authority()
    names = dict.fromkeys((*hosts, "127.0.0.1", "::1", "localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    trustme.CA.from_pem(authority.certificate, authority.key).issue_cert(*names).configure_cert(context)
    return ServingCertificate(context, authority.certificate)
