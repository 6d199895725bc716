"""A certificate that nobody vouches for."""

import subprocess
from pathlib import Path


def self_signed(place: Path, host: str = "localhost") -> Path:
    """One file with a key and the certificate, made in this folder."""
    subprocess.run(
        ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}",
         "-addext", f"subjectAltName=DNS:{host}", "-keyout", "key", "-out", "cert"),
        cwd=place, check=True, capture_output=True,
    )  # fmt: skip
    both = place / "both.pem"
    both.write_bytes((place / "key").read_bytes() + (place / "cert").read_bytes())
    return both
