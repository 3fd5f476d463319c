"""The server of the page: what it answers to other sites, to other programs and to malformed calls."""

import asyncio
import json
import socket
from importlib.util import find_spec

import httpx
import pytest

pytestmark = [
    pytest.mark.skipif(find_spec("gradio") is None, reason="needs the extra play"),
    pytest.mark.filterwarnings("ignore"),  # gradio's own
]


@pytest.fixture(scope="module")
def closed_loops():
    """Close the event loops that gradio makes for its locks and forgets: collected later, they would fail any test."""
    make = asyncio.new_event_loop
    loops = []

    def remembered():
        loops.append(make())
        return loops[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", remembered)
        yield
    for loop in loops:
        loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="module")
def server(tiny_model, closed_loops):
    """A client of the page, which sends its origin as a browser does."""
    from electra.playground.page import build_page, launch

    page = build_page(tiny_model, "tiny")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    launch(page, "127.0.0.1", port, browser=False)
    address = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=address, headers={"origin": address}) as client:
        yield client
    page.close(verbose=False)


def call(server: httpx.Client, function: int, data: list) -> dict:
    """Run a function of the page, and return its output."""
    session = f"{function} {data}"
    joined = {"fn_index": function, "data": data, "session_hash": session}
    server.post("/gradio_api/queue/join", json=joined).raise_for_status()
    with server.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as events:
        for line in filter(None, events.iter_lines()):
            message = json.loads(line.removeprefix("data: "))
            if message["msg"] == "process_completed":
                return message["output"]
    raise AssertionError("not completed")


@pytest.mark.parametrize("path", ["/", "/config", "/theme.css", "/gradio_api/info", "/gradio_api/app_id"])
def test_what_the_page_asks_for_is_answered(server, path):
    assert server.get(path).status_code == 200


def test_a_function_of_the_page_is_answered(server):
    assert "of 2 tokens" in call(server, 0, ["the chef", 0.5])["data"][0]


def test_the_page_is_also_served_as_localhost(server):
    address = f"localhost:{server.base_url.port}"
    assert server.get("/", headers={"host": address, "origin": f"http://{address}"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1"])
def test_another_host_is_refused(server, host):
    assert server.get("/", headers={"host": host.format(port=server.base_url.port)}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", ""]
)
def test_a_call_from_another_origin_is_refused(server, origin):
    headers = {"origin": origin.format(port=server.base_url.port)}
    assert server.post("/gradio_api/queue/join", json={}, headers=headers).status_code == 403


def test_a_call_without_an_origin_is_refused(server):
    assert httpx.post(server.base_url.join("/gradio_api/queue/join"), json={}).status_code == 403


def test_a_file_cannot_be_uploaded(server):
    assert server.post("/gradio_api/upload", files={"files": ("name", b"content")}).status_code == 404


def test_a_call_that_is_too_large_or_of_unknown_length_is_refused(server):
    body = b'{"data": ["' + b"a" * (1 << 22) + b'"], "fn_index": 0, "session_hash": "large"}'
    for content in (body, iter([body])):
        headers = {"content-type": "application/json"}
        assert server.post("/gradio_api/queue/join", content=content, headers=headers).status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        *("/gradio_api/file={file}", "/gradio_api/file{file}", "/file={file}", "/gradio_api/proxy=http://127.0.0.1"),
        *("/static/..%2f..%2f..%2froutes.py", "/assets/..%2f..%2f..%2froutes.py", "/svelte/..%2f..%2froutes.py"),
        *("/monitoring", "/monitoring/summary", "/gradio_api/vibe-code", "/gradio_api/call/show"),
    ],
)
def test_no_file_and_no_other_route_can_be_read(server, path):
    assert server.get(path.format(file=__file__)).status_code in (403, 404)


@pytest.mark.parametrize(
    "body",
    ["{", "[[" * 3000, '{"fn_index": 999, "data": [], "session_hash": "s"}', '{"fn_index": "x", "session_hash": "s"}'],
)
def test_a_malformed_call_is_refused_without_a_traceback(server, capfd, body):
    reply = server.post("/gradio_api/queue/join", content=body, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 422)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("data", [[], ["the chef", "x"], ["the chef", 99], [None, None]])
def test_a_call_with_values_of_another_type_is_answered_without_a_traceback(server, capfd, data):
    assert call(server, 0, data)["error"]
    assert capfd.readouterr() == ("", "")


def test_an_unknown_session_is_ended_without_a_traceback(server, capfd):
    server.get("/gradio_api/queue/data", params={"session_hash": "unknown"})
    assert capfd.readouterr() == ("", "")
