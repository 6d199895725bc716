"""An engine of a test's own, behind TLS; it shares nothing with the machine's."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import free_port
from tests.support.waiting import wait_until

_LARGE = (
    "nodejs", "perl", "usr/lib/python3", "usr/include", "var/lib/dpkg", "gconv",
    "libnode*", "libicu*", "libperl*", "*.a",
)  # fmt: skip
"""Of the image, what no test of another engine needs."""


def make_certificates(place: Path) -> None:
    """An authority of our own, and a certificate by it for the engine and for its clients."""

    def openssl(*argv: str) -> None:
        subprocess.run(("openssl", *argv), cwd=place, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes", "-keyout")
    openssl("req", "-x509", *key, "ca-key.pem", "-subj", "/CN=authority", "-out", "ca.pem")
    for who, use in (("server", "serverAuth"), ("client", "clientAuth")):
        stem = {"server": "server-", "client": ""}[who]
        facts = f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage={use}\n"
        (place / "facts").write_text(facts)
        openssl("req", *key, f"{stem}key.pem", "-subj", f"/CN={who}", "-out", "request")
        openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
                "-CAcreateserial", "-extfile", "facts", "-out", f"{stem}cert.pem")  # fmt: skip


class OwnEngine:
    """A dockerd whose state is in `place`; it can die and come back."""

    def __init__(self, place: Path, bridge: str, options: tuple[str, ...] = ()) -> None:
        self._place = place
        url = f"tcp://127.0.0.1:{free_port()}"
        self.env: Mapping[str, str] = {
            "DOCKER_HOST": url, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(place)
        }  # fmt: skip
        self._argv = (
            "dockerd", "--data-root", f"{place}/data", "--exec-root", f"{place}/exec",
            "--pidfile", f"{place}/pid", "--bridge", bridge, "--iptables=false",
            "--host", url, "--tlsverify", "--tlscacert", "ca.pem",
            "--tlscert", "server-cert.pem", "--tlskey", "server-key.pem", *options,
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """The last of what it said."""
        return (self._place / "log").read_text()[-2000:]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        # what a killed one left may name a process that lives and is another one
        (self._place / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        with (self._place / "log").open("ab") as log:
            started = subprocess.Popen(self._argv, cwd=self._place, stdout=log, stderr=log)
        self._process = started
        wait_until(lambda: started.poll() is not None or not self.docker("version").returncode)
        assert started.poll() is None, self.log

    def end(self, sign: signal.Signals) -> None:
        """Send it the signal, and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait()

    def load(self, image: str) -> None:
        """Give it an image that the machine's engine has, without its largest files."""
        ask = ("docker", "inspect", "--format", "{{json .Config}}", image)
        config = json.loads(subprocess.run(ask, capture_output=True, check=True).stdout)
        labels = (f"{name}={value}" for name, value in config["Labels"].items())
        changes = (
            ("USER", config["User"]),
            ("WORKDIR", config["WorkingDir"]),
            *(("ENV", one) for one in config["Env"]),
            *(("LABEL", one) for one in labels),
        )
        put = [f"--change={what} {value}" for what, value in changes]
        small = [f"--exclude={path}" for path in _LARGE]
        tar = ("--create", "--file=/out/image", "--one-file-system", *small, "--directory=/", ".")
        # Not by its output: through an engine that takes ten times as long.
        out = ("--user=root", f"--volume={self._place}/image:/out", "--entrypoint=tar")
        subprocess.run(("docker", "run", "--rm", "--network=none", *out, image, *tar), check=True)
        with (self._place / "image" / "image").open("rb") as files:
            loaded = self.docker("import", *put, "-", image, stdin=files.fileno())
        assert loaded.returncode == 0, self.log
        shutil.rmtree(self._place / "image")

    def docker(self, *argv: str, stdin: int | None = None) -> subprocess.CompletedProcess[bytes]:
        """What the docker command says of it."""
        env = {**os.environ, **self.env}
        asked = ("docker", *argv)
        return subprocess.run(asked, env=env, stdin=stdin, capture_output=True, check=False)


@contextmanager
def own_engine(place: Path, *options: str) -> Iterator[OwnEngine]:
    """A running engine. Its place is short, as sockets are there; its images are in memory.

    `options` are more options of dockerd.
    """
    make_certificates(place)
    (place / "data").mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "harness", place / "data"), check=True)
    with _bridge() as bridge:
        engine = OwnEngine(place, bridge, options)
        try:
            engine.start()
            yield engine
        finally:
            engine.end(signal.SIGTERM)
            _unmount(place)


def _unmount(place: Path) -> None:
    """End its memory, and what an engine that was killed had mounted."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed(mounts):
        if Path(mount).is_relative_to(place):
            subprocess.run(("umount", mount), check=True)


@contextmanager
def _bridge() -> Iterator[str]:
    """A bridge of its own: told to have none, an engine would remove the machine's `docker0`."""
    name = f"harness{os.getpid()}"[:15]
    ip = ("ip", "link")
    subprocess.run((*ip, "add", name, "type", "bridge"), check=True)
    try:
        address = ("ip", "address", "add", "10.254.254.1/30", "dev", name)
        subprocess.run(address, check=True)
        yield name
    finally:
        subprocess.run((*ip, "delete", name), check=True)
