"""Small package indexes of this machine, one for each client: each has `dep` 1.0.0 and no more."""

import gzip
import hashlib
import io
import json
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.support.wheel_index import HOST

MODULE = f"{HOST}/dep"
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>acme</groupId>"
    "<artifactId>dep</artifactId><version>1.0.0</version><packaging>pom</packaging></project>"
)
_GEM = """--- !ruby/object:Gem::Specification
name: dep
version: !ruby/object:Gem::Version
  version: 1.0.0
platform: ruby
authors: [A]
summary: A gem.
files: [lib/dep.rb]
require_paths: [lib]
specification_version: 4
"""

Files = Callable[[str], Mapping[str, bytes]]
"""Files by path, for an index with this address."""


class Client(NamedTuple):
    """An ecosystem's index and its client: this machine's settings, a project, and its install.

    `{url}` in the settings is the address of the index.
    """

    settings: tuple[str, str]
    project: Mapping[str, str]
    install: str
    files: Files


def crates(url: str) -> Mapping[str, bytes]:
    crate = _tar(
        {
            "dep-1.0.0/Cargo.toml": b'[package]\nname = "dep"\nversion = "1.0.0"\n',
            "dep-1.0.0/src/lib.rs": b"pub fn value() -> u32 { 1 }\n",
        }
    )
    line = {"name": "dep", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    return {
        "/config.json": json.dumps({"dl": f"{url}/files"}).encode(),
        "/3/d/dep": json.dumps({**line, "cksum": _sha256(crate)}).encode(),
        "/files/dep/1.0.0/download": crate,
    }


def modules(_: str) -> Mapping[str, bytes]:
    at = f"/{MODULE}/@v"
    mod = f"module {MODULE}\n".encode()
    inside = {f"{MODULE}@v1.0.0/go.mod": mod, f"{MODULE}@v1.0.0/dep.go": b"package dep\n"}
    info = b'{"Version": "v1.0.0"}'
    return {
        f"{at}/list": b"v1.0.0\n",
        f"{at}/v1.0.0.info": info,
        f"{at}/v1.0.0.mod": mod,
        f"{at}/v1.0.0.zip": _zip(inside),
    }


def artifacts(_: str) -> Mapping[str, bytes]:
    return {"/acme/dep/1.0.0/dep-1.0.0.pom": _POM.encode()}


def gems(_: str) -> Mapping[str, bytes]:
    data = _tar({"lib/dep.rb": b"VALUE = 1\n"})
    gem = _tar({"metadata.gz": gzip.compress(_GEM.encode()), "data.tar.gz": data}, packed=False)
    info = f"---\n1.0.0 |checksum:{_sha256(gem)}\n".encode()
    digest = hashlib.md5(info, usedforsecurity=False).hexdigest()
    return {
        "/versions": f"created_at: 2026-01-01T00:00:00Z\n---\ndep 1.0.0 {digest}\n".encode(),
        "/info/dep": info,
        "/gems/dep-1.0.0.gem": gem,
    }


def archives(url: str) -> Mapping[str, bytes]:
    dist = {"type": "zip", "url": f"{url}/dep.zip"}
    dep = {"name": "acme/dep", "version": "1.0.0", "dist": dist}
    return {
        "/packages.json": json.dumps({"packages": {"acme/dep": {"1.0.0": dep}}}).encode(),
        "/dep.zip": _zip({"composer.json": json.dumps({"name": "acme/dep"}).encode()}),
    }


CLIENTS = {
    "rust": Client(
        (
            ".cargo/config.toml",
            '[source.crates-io]\nreplace-with = "m"\n[source.m]\nregistry = "sparse+{url}/"\n',
        ),
        {
            "Cargo.toml": '[package]\nname = "p"\nversion = "0.1.0"\n[dependencies]\ndep = "1"\n',
            "src/lib.rs": "",
        },
        "cargo fetch && cargo metadata --offline --format-version 1 | grep dep@1.0.0",
        crates,
    ),
    "go": Client(
        (".config/go/env", "GOPROXY={url}\nGOSUMDB=off\n"),
        {"go.mod": f"module p\n\ngo 1.19\n\nrequire {MODULE} v1.0.0\n"},
        "go mod download && ls ~/go/pkg/mod/*/dep@v1.0.0/dep.go",
        modules,
    ),
    "java": Client(
        (
            ".m2/settings.xml",
            '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror><id>m</id>'
            "<mirrorOf>*</mirrorOf><url>{url}</url></mirror></mirrors></settings>",
        ),
        {
            "pom.xml": "<project><modelVersion>4.0.0</modelVersion><parent><groupId>acme</groupId>"
            "<artifactId>dep</artifactId><version>1.0.0</version><relativePath/></parent>"
            "<artifactId>p</artifactId></project>"
        },
        "mvn -B -ntp validate && mvn -B -o validate",
        artifacts,
    ),
    "gradle": Client(
        (".gradle/init.gradle", "allprojects { repositories { maven { url '{url}' } } }\n"),
        {
            "build.gradle": "repositories { mavenCentral() }\nconfigurations { some }\n"
            "dependencies { some 'acme:dep:1.0.0@pom' }\n"
            "task fetch { doLast { println configurations.some.files } }\n"
        },
        "gradle --no-daemon fetch | grep dep-1.0.0.pom",
        artifacts,
    ),
    "ruby": Client(
        (".bundle/config", '---\nBUNDLE_MIRROR__ALL: "{url}/"\n'),
        {"Gemfile": 'source "https://elsewhere.example"\ngem "dep"\n'},
        "bundle config set --local path gems && bundle install && ls gems/ruby/*/gems/dep-1.0.0",
        gems,
    ),
    "php": Client(
        (
            ".config/composer/config.json",
            '{"config": {"secure-http": false}, "repositories":'
            ' [{"type": "composer", "url": "{url}"}, {"packagist": false}]}',
        ),
        {"composer.json": '{"require": {"acme/dep": "1.0.0"}}'},
        "composer install --no-interaction --no-progress && ls vendor/acme/dep",
        archives,
    ),
}


@contextmanager
def package_index(files: Files, certificate: Path | None = None) -> Iterator[str]:
    """Serve an index until the block ends; gives its address. With a certificate it is TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme = "https" if certificate else "http"
        url = f"{scheme}://{HOST}:{server.server_address[1]}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        served = files(url)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url
        server.shutdown()


def _tar(files: Mapping[str, bytes], *, packed: bool = True) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz" if packed else "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def _zip(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
