"""HTTP clients of other programs, as they come: each report is taken and counted once, also through proxies."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.shared.collectors import Service, make_certificate, make_reports, usage
from tests.shared.proxies import PROGRAMS, installed, proxy

from reticent.reports import to_json
from reticent_collector.stores import open_store


@dataclass
class Ways:
    """A collector, and the addresses that lead to it: its own, and that of each proxy that is installed."""

    service: Service
    certificate: Path
    key: str
    urls: list[str]
    sent: int = 0
    seeds: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))

    def reports(self, count: int) -> list[str]:
        """Reports that nobody has sent."""
        plan = self.service.plans[0]
        self.sent += count
        return [
            to_json(make_reports(plan, self.service.now(plan), 1, next(self.seeds))[0]).decode()
            for _ in range(count)
        ]


@pytest.fixture(scope="module")
def ways(start: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    service = start(usage(1), keys=("ingest", "reader"), options=("--behind-proxy",))
    certificate = make_certificate(tmp_path_factory.mktemp("certificate"))
    with ExitStack() as stack:
        urls = [f"http://127.0.0.1:{service.port}/v1/reports"]
        for name in filter(installed, PROGRAMS):
            front = stack.enter_context(proxy(name, service.port, certificate, tmp_path_factory.mktemp(name)))
            urls.append(f"https://127.0.0.1:{front.port}/v1/reports")
        ways = Ways(service, certificate[0], service.keys["ingest"], urls)  # type: ignore[attr-defined]
        yield ways
    assert service.stop() == 0
    store = open_store(service.store)
    assert store.stored_reports() == ways.sent  # each counts, and counts once
    store.close()


JAVA = """
import java.io.FileInputStream;
import java.net.URI;
import java.net.http.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

class Send {
    public static void main(String[] words) throws Exception {
        KeyStore known = KeyStore.getInstance(KeyStore.getDefaultType());
        known.load(null);
        known.setCertificateEntry("it",
            CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(words[0])));
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(known);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        HttpClient client = HttpClient.newBuilder().sslContext(tls).build();
        for (int place = 2; place < words.length; place += 2) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(words[place]))
                .header("Content-Type", "application/json").header("Authorization", words[1])
                .POST(HttpRequest.BodyPublishers.ofString(words[place + 1])).build();
            System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
        }
    }
}
"""

NODE = """
const [key, ...words] = process.argv.slice(1);
for (let place = 0; place < words.length; place += 2) {
    const headers = {'Content-Type': 'application/json', Authorization: key};
    const answer = await fetch(words[place], {method: 'POST', headers, body: words[place + 1]});
    console.log(answer.status, await answer.text());
}
"""


def run(name: str, *words: str, **environment: str) -> list[str]:
    """What a program prints, by line."""
    done = subprocess.run(
        [name, *words], capture_output=True, text=True, check=False, timeout=100,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def needs(name: str) -> None:
    if installed(name) is None:
        pytest.skip(f"{name} is not installed")


def twice_each(ways: Ways) -> list[str]:
    """Each address twice, with a report of its own: the second comes on a connection that stayed."""
    targets = [url for url in ways.urls for _ in range(2)]
    return [word for pair in zip(targets, ways.reports(len(targets)), strict=True) for word in pair]


def test_java(ways: Ways, tmp_path: Path) -> None:
    """Its client offers HTTP/2 with the first request on a connection without TLS."""
    needs("java")
    source = tmp_path / "Send.java"
    source.write_text(JAVA)
    words = [str(source), str(ways.certificate), f"Bearer {ways.key}", *twice_each(ways)]
    assert run("java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *words) == ["202"] * 2 * len(ways.urls)


def test_node(ways: Ways) -> None:
    needs("node")
    words = ["--input-type=module", "--eval", NODE, f"Bearer {ways.key}", *twice_each(ways)]
    answers = run("node", *words, NODE_EXTRA_CA_CERTS=str(ways.certificate))
    assert answers == ['202 {"accepted":1}'] * 2 * len(ways.urls)


@pytest.mark.parametrize(
    "options",
    [
        ["--http2"],
        ["--http1.0", "--no-alpn"],
        ["--header", "Expect: 100-continue"],
        ["--header", "Transfer-Encoding: chunked"],
        ["--header", "Transfer-Encoding: chunked", "--header", "Expect: 100-continue"],
    ],
)
def test_curl(ways: Ways, options: list[str]) -> None:
    needs("curl")
    words: list[str] = []
    for url, report in zip(ways.urls * 2, ways.reports(2 * len(ways.urls)), strict=True):
        words += [
            *(["--next"] if words else []), "--silent", "--max-time", "20", "--expect100-timeout", "0.1",
            "--output", os.devnull, "--write-out", "%{http_code}\\n", "--cacert", str(ways.certificate), *options,
            "--header", "Content-Type: application/json", "--header", f"Authorization: Bearer {ways.key}",
            "--data-binary", report, url,
        ]  # fmt: skip
    assert run("curl", *words) == ["202"] * 2 * len(ways.urls)
