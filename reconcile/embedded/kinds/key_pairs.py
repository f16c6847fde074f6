"""Whether a certificate and a private key belong together."""

from importlib.util import find_spec


def key_pair_fault(certificate: bytes, key: bytes) -> str:
    """What a TLS server would say of the pair, both in PEM; empty if it can use them.

    Without the extra `embedded`, nothing is looked at.
    """
    if find_spec("cryptography") is None:
        return ""
    # Imported here, since it takes a tenth of a second, and hardly a test writes such a secret.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate

    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        certified = load_pem_x509_certificate(certificate).public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        return "tls: failed to find any PEM data in certificate input"
    try:
        held = load_pem_private_key(key, None).public_key().public_bytes(*form)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to find any PEM data in key input"
    return "" if certified == held else "tls: private key does not match public key"
