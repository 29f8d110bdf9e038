"""The scripted upstream does what its text says."""

import http.client
import os
import socket
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from upstream import END, TcpCounter, Upstream, answer, chunk, event, stream_head  # noqa: E402


def connect(up):
    return http.client.HTTPConnection("127.0.0.1", up.port, timeout=5)


def test_requests_are_recorded_and_reuse_is_counted():
    with Upstream(lambda x: x.send(answer({"n": x.request.number}))) as up:
        c = connect(up)
        for n in (1, 2):
            c.request("POST", f"/v1/x?{n}", b'{"a": 1}', {"X-Two": "b"})
            assert c.getresponse().read() == b'{"n": %d}' % n
        c.close()
        up.wait(lambda: not up._live, "the close")
        assert up.connections == 1
        assert [r.number for r in up.requests] == [1, 2]
        assert up.requests[1].target == "/v1/x?2" and up.requests[1].json() == {"a": 1}
        assert up.requests[0].header("x-two") == "b"
        assert up.requests[0].head.startswith(b"POST /v1/x?1 HTTP/1.1\r\n")


def test_a_chunked_body_keeps_its_framing():
    with Upstream(lambda x: x.send(answer(b""))) as up:
        with socket.create_connection(("127.0.0.1", up.port)) as s:
            s.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            s.sendall(b"2;x=y\r\nde\r\n0\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 200 OK")
        assert up.requests[0].body == b"abcde"
        assert up.requests[0].raw_body == b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"


def test_events_leave_one_by_one():
    def script(x):
        x.send(stream_head())
        x.send(event({"n": 1}))
        x.pause(0.15)
        x.send(event("[DONE]") + END)

    with Upstream(script) as up:
        c = connect(up)
        c.request("GET", "/")
        r = c.getresponse()
        assert r.readline() == b'data: {"n": 1}\n'
        first = time.monotonic()
        assert r.read() == b"\ndata: [DONE]\n\n"
        assert time.monotonic() - first > 0.1
        c.close()


@pytest.mark.parametrize("end, error", [("rst", ConnectionResetError), ("fin", None)])
def test_reset_and_fin(end, error):
    def script(x):
        x.send(stream_head() + event("a"))
        x.pause(0.05)
        getattr(x, end)()

    with Upstream(script) as up, socket.create_connection(("127.0.0.1", up.port)) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        data = s.recv(1000)
        while not data.endswith(b"data: a\n\n\r\n"):
            data += s.recv(1000)
        if error:
            with pytest.raises(error):
                s.recv(1)
        else:
            assert s.recv(1) == b""


def test_a_client_that_leaves_is_noticed_while_the_script_is_silent():
    with Upstream(lambda x: x.wait_gone(5)) as up:
        s = socket.create_connection(("127.0.0.1", up.port))
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        up.wait(lambda: up.requests, "the request")
        left = time.monotonic()
        s.close()
        up.wait(lambda: up.requests[0].gone_at, "the leaving")
        assert 0 <= up.requests[0].gone_at - left < 0.5


def test_idle_connections_are_closed():
    with Upstream(lambda x: x.send(answer(b"")), idle_close=0.05) as up:
        with socket.create_connection(("127.0.0.1", up.port)) as s:
            s.settimeout(5)
            assert s.recv(1) == b""


def test_a_unix_socket(tmp_path):
    path = str(tmp_path / "up.sock")
    with Upstream(lambda x: x.send(answer("x", kind="text/plain")), uds=path):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert s.recv(1000).endswith(b"\r\n\r\nx")
    assert not os.path.exists(path)


def test_a_wrong_script_fails_its_test():
    with pytest.raises(ZeroDivisionError):
        with Upstream(lambda x: 1 / 0) as up:
            with socket.create_connection(("127.0.0.1", up.port)) as s:
                s.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert s.recv(1) == b""


def test_the_counter_counts():
    with TcpCounter() as counter:
        for _ in range(3):
            socket.create_connection(("127.0.0.1", counter.port)).close()
        counter.wait(lambda: counter.connections == 3, "three connections")


def test_chunks():
    assert chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n" and END == b"0\r\n\r\n"
