"""A page of another site, open in a real browser, and the local Prefect server beside it."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
from playwright.sync_api import Page

from flows.services import prefect_server
from tests.support.waiting import LONG_S

pytestmark = [pytest.mark.browser, pytest.mark.prefect]

TRY = """async ([api, socket, deployment, run]) => {
    const post = (path, how) => fetch(api + path, {method: "POST", ...how}).then(
        said => said.type === "opaque" ? "sent" : said.status, () => "failed")
    const body = '{"state": {"type": "SCHEDULED"}}'
    const start = `/deployments/${deployment}/create_flow_run`, resume = `/flow_runs/${run}/resume`
    const json = {headers: {"content-type": "application/json"}, body}
    const blind = {mode: "no-cors", body: new Blob([body])}
    return {
        read: await fetch(api + "/version").then(said => said.text(), () => "failed"),
        json: [await post(start, json), await post(resume, json)],
        blind: [await post(start, blind), await post(resume, blind)],
        socket: await new Promise(done => {
            const opened = new WebSocket(socket)
            opened.onopen = () => done("opened")
            opened.onerror = () => done("failed")
        }),
    }
}"""


@pytest.fixture(params=["127.0.0.1", "localhost"])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a page on this machine that is none of ours."""

    class Blank(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title><iframe></iframe>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{request.param}:{server.server_port}/"
        server.shutdown()


def test_a_page_elsewhere_starts_resumes_reads_and_frames_nothing(
    prefect_api: str, page: Page, elsewhere: str
) -> None:
    with httpx.Client(base_url=prefect_api, timeout=LONG_S) as server:
        flow = server.post("/flows/", json={"name": "hunted"}).json()["id"]
        made = server.post("/deployments/", json={"name": "hunted", "flow_id": flow}).json()["id"]
        paused = {"flow_id": flow, "state": {"type": "PAUSED", "name": "Suspended"}}
        run = server.post("/flow_runs/", json=paused).json()["id"]
        page.goto(elsewhere)
        socket = prefect_api.replace("http", "ws") + "/events/in"
        tried = page.evaluate(TRY, [prefect_api, socket, made, run])
        started = {"deployments": {"id": {"any_": [made]}}}
        assert server.post("/flow_runs/count", json=started).json() == 0
        assert server.get(f"/flow_runs/{run}").json()["state"]["type"] == "PAUSED"
    assert tried.pop("blind") == ["sent", "sent"]
    assert tried == {"read": "failed", "json": ["failed", "failed"], "socket": "failed"}
    with page.expect_event("framenavigated") as framed:
        page.evaluate(
            "to => document.querySelector('iframe').src = to", prefect_server.ui_url(prefect_api)
        )
    assert framed.value.url == "chrome-error://chromewebdata/"
