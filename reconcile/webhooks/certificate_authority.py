"""CAs and serving certificates of the operator's own: ECDSA P-256, so that a handshake costs little."""

import datetime
import hashlib
import re
import ssl
from collections.abc import Sequence
from functools import lru_cache

import attrs
from attrs import frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reconcile.webhooks.rotation import Authority, Leaf, Validity

LEAF_LIFE = datetime.timedelta(days=90)
AUTHORITY_LIFE = datetime.timedelta(days=365)
BACKDATED = datetime.timedelta(minutes=10)
"""Validity starts that long in the past, for machines whose clocks are behind."""

MOST_PEM = 100_000
"""Characters of PEM that are read at most: thirty times what two certificates have."""

_LONGEST_NAME = 64  # characters of a common name at most, by RFC 5280
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


class BadCertificate(ValueError):
    """Text that is not a certificate or a key, or a certificate and a key that do not belong together."""


@frozen
class Pair:
    """A certificate and its private key, in PEM; the key is never shown."""

    certificate: str
    key: str = attrs.field(repr=False)


def new_authority(now: datetime.datetime) -> Pair:
    """A CA that signs leaf certificates and no other CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # A name of its own, so that a verifier never tries the wrong one of two in a bundle.
    text = f"reconcile webhooks {serial:x}"[:_LONGEST_NAME]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(made, key)


def new_leaf(authority: Pair, names: Sequence[str], now: datetime.datetime) -> Pair:
    """A serving certificate for `names`, which ends with its CA at the latest. Raises BadCertificate."""
    issuer, issuer_key = _certificate(authority.certificate), _key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject_key = x509.SubjectKeyIdentifier.from_public_key(issuer_key.public_key())
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - BACKDATED, issuer.not_valid_before_utc))
        .not_valid_after(min(now + LEAF_LIFE, issuer.not_valid_after_utc))
        # Critical, because the subject is empty: a service's name may be longer than a common name.
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(authority_key, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(made, key)


@lru_cache(maxsize=64)
def authority_of(pair: Pair) -> Authority:
    """What a CA is; its key is checked too. Raises BadCertificate if the pair is not a CA."""
    certificate = _certificate(pair.certificate)
    _check_key(certificate, pair)
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        raise BadCertificate("it is not the certificate of a CA") from None
    if not constraints.ca:
        raise BadCertificate("it is not the certificate of a CA")
    return Authority(fingerprint(pair.certificate), _validity(certificate))


@lru_cache(maxsize=64)
def leaf_of(pair: Pair, authorities: tuple[Pair, ...]) -> Leaf:
    """What a leaf of one of the CAs is. Raises BadCertificate if none of them signed it."""
    certificate = _certificate(pair.certificate)
    _check_key(certificate, pair)
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(_certificate(authority.certificate))
        except (ValueError, TypeError, InvalidSignature):
            continue
        return Leaf(fingerprint(authority.certificate), _names(certificate), _validity(certificate))
    raise BadCertificate("no CA beside it has signed it")


def valid_until(certificate: str) -> datetime.datetime:
    """When a certificate in PEM expires. Raises BadCertificate."""
    return _certificate(certificate).not_valid_after_utc


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate in PEM, in hexadecimal digits. Raises BadCertificate."""
    try:
        encoded = ssl.PEM_cert_to_DER_cert(certificate.strip())
    except ValueError:
        raise BadCertificate("it is not a certificate in PEM") from None
    return hashlib.sha256(encoded).hexdigest()


def fingerprints(bundle: str) -> frozenset[str]:
    """The fingerprints of the certificates in a bundle; other text is skipped, as API servers do."""
    found = set()
    for text in certificates_in(bundle):
        try:
            found.add(fingerprint(text))
        except BadCertificate:
            continue
    return frozenset(found)


def certificates_in(bundle: str) -> Sequence[str]:
    """The texts in a bundle that look like certificates in PEM."""
    return [match.group() for match in _PEM.finditer(bundle[:MOST_PEM])]


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM).decode(), encoded.decode())


def _certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text[:MOST_PEM].encode())
    except ValueError:
        raise BadCertificate("it is not a certificate in PEM") from None


def _key(text: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(text[:MOST_PEM].encode(), None)
    except (ValueError, TypeError):
        raise BadCertificate("its key is not a private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificate("its key is not one of an elliptic curve")
    return key


def _check_key(certificate: x509.Certificate, pair: Pair) -> None:
    if certificate.public_key() != _key(pair.key).public_key():
        raise BadCertificate("its key is that of another certificate")


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(names.get_values_for_type(x509.DNSName))
