"""Throw-away certificates for servers on the loopback interface."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from toposcope.simulator.apiserver import Certificates

__all__ = ["Certificates", "make_certificates", "private_pem"]

_OF_AN_AUTHORITY = ("digital_signature", "key_cert_sign", "crl_sign")
_USAGES = (
    *_OF_AN_AUTHORITY,
    *(
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    ),
)


def make_certificates(folder: Path, address: str = "127.0.0.1") -> Certificates:
    """Write a fresh set of certificates, valid for a day.

    The server's certificate is for `address` and localhost.
    """
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("tests")
    ca = _authority(ca_name, ca_key)

    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName(
        [
            x509.IPAddress(ip_address(address)),
            x509.DNSName("localhost"),
        ]
    )
    no_authority = x509.BasicConstraints(ca=False, path_length=None)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = _builder(_name("localhost"), ca_name, key)
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(no_authority, critical=True)
    builder = builder.add_extension(issuer, critical=False)
    certificate = builder.sign(ca_key, hashes.SHA256())

    files = Certificates(
        folder / "ca.crt",
        folder / "server.crt",
        folder / "server.key",
    )
    pem = serialization.Encoding.PEM
    files.ca.write_bytes(ca.public_bytes(pem))
    files.certificate.write_bytes(certificate.public_bytes(pem))
    files.key.write_bytes(private_pem(key))
    return files


def _authority(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """A certificate that signs others, signed by its own key."""
    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    usages = {usage: usage in _OF_AN_AUTHORITY for usage in _USAGES}
    key_usage = x509.KeyUsage(**usages)
    public_key = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public_key)

    builder = _builder(name, name, key)
    builder = builder.add_extension(is_authority, critical=True)
    builder = builder.add_extension(key_usage, critical=True)
    builder = builder.add_extension(identifier, critical=False)
    return builder.sign(key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    attribute = x509.NameAttribute(NameOID.COMMON_NAME, common)
    return x509.Name([attribute])


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a private key as Kubernetes programs read it."""
    plain = serialization.NoEncryption()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )
