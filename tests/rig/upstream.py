"""A scripted HTTP/1.1 upstream for tests, with every byte, pause and close under control.

    def script(x):                       # called once a request, in the connection's own thread
        x.send(stream_head())
        x.send(event({"n": 1}))
        x.pause(0.2)
        x.rst()                          # or x.fin(); returning keeps the connection open

    with Upstream(script) as up:         # 127.0.0.1, a free port; or Upstream(script, uds=PATH)
        ... up.port ...
        up.wait(lambda: up.requests, "a request")
        up.requests[0].head, .body       # the bytes as they came

What it records: `connections` (count), `requests` in order of arrival, each with its connection's
number, its place on that connection (2 or more: the connection was reused), when it came and when
the client left. Times are time.monotonic(). An exception in a script is kept in `errors`, and
`close` raises the first one, so that a wrong script fails its test.

TcpCounter counts connections and answers nothing: a fake proxy that nobody should use.
"""

import json
import os
import select
import socket
import struct
import threading
import time


class ClientGone(Exception):
    """The client closed while the script wanted to read or write."""


class Request:
    """One request as it came."""

    def __init__(self, connection, number, head, body, raw_body):
        self.connection = connection  # 1, 2, ... in order of accepting
        self.number = number  # on its connection: 1, 2, ...
        self.head = head  # bytes, with the empty line
        self.body = body  # bytes, without the framing of chunks
        self.raw_body = raw_body  # bytes as on the wire
        self.at = time.monotonic()
        self.gone_at = None  # when the client was seen to have left
        line = head.split(b"\r\n")[0].decode("latin-1").split(" ")
        self.method, self.target = line[0], line[1] if len(line) > 1 else ""

    def headers(self, name):
        """All values of a header, in order."""
        rows = [row.split(b":", 1) for row in self.head.split(b"\r\n")[1:] if b":" in row]
        return [v.strip().decode("latin-1") for k, v in rows
                if k.decode("latin-1").lower() == name.lower()]

    def header(self, name):
        values = self.headers(name)
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)


class Exchange:
    """What a script gets: the request, and the connection to answer on."""

    def __init__(self, upstream, sock, request):
        self.upstream, self.sock, self.request = upstream, sock, request
        self.open = True

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            self._left()
            raise ClientGone(str(e)) from e

    def pause(self, seconds):
        """Waits; raises ClientGone as soon as the client closes."""
        if self.wait_gone(seconds):
            raise ClientGone("closed during a pause")

    def wait_gone(self, seconds):
        """Whether the client closes (FIN or RST) within `seconds`."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return False
            readable, _, _ = select.select([self.sock], [], [], left)
            if not readable:
                return False
            try:
                if self.sock.recv(1, socket.MSG_PEEK):
                    time.sleep(min(left, 0.01))  # a pipelined request: not a close
                    continue
            except OSError:
                pass
            self._left()
            return True

    def fin(self):
        """Ends the connection in order; what was sent arrives."""
        self.open = False
        self.sock.shutdown(socket.SHUT_WR)
        self.sock.close()

    def rst(self):
        """Resets the connection; what was sent may be lost."""
        self.open = False
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _left(self):
        with self.upstream.changed:
            if self.request.gone_at is None:
                self.request.gone_at = time.monotonic()
            self.upstream.changed.notify_all()


class Listener:
    """Accepts connections, each served by a thread of its own."""

    def __init__(self, host="127.0.0.1", port=0, uds=None):
        self.uds = uds
        self.connections = 0
        self.changed = threading.Condition()
        self.errors = []
        self._live = set()
        if uds:
            self._sock = socket.socket(socket.AF_UNIX)
            self._sock.bind(uds)
            self.port = None
        else:
            self._sock = socket.create_server((host, port))
            self.port = self._sock.getsockname()[1]
        self._sock.listen(512)
        self._closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            with self.changed:
                self.connections += 1
                self._live.add(sock)
                number = self.connections
                self.changed.notify_all()
            threading.Thread(target=self._guard, args=(sock, number), daemon=True).start()

    def _guard(self, sock, number):
        try:
            self.serve(sock, number)
        except (ClientGone, ConnectionError):
            pass
        except Exception as e:  # kept for close(): a thread has nobody to tell
            if not self._closing:
                self.errors.append(e)
        finally:
            with self.changed:
                self._live.discard(sock)
                self.changed.notify_all()
            sock.close()

    def serve(self, sock, number):
        raise NotImplementedError

    def live(self):
        """Connections that are open now."""
        with self.changed:
            return len(self._live)

    def wait(self, predicate, what, seconds=5):
        """Waits until something recorded makes the predicate true."""
        with self.changed:
            end = time.monotonic() + seconds
            while not predicate():
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"waited {seconds} s for {what}")
                self.changed.wait(min(left, 0.1))

    def close(self):
        self._closing = True
        self._sock.close()
        with self.changed:
            for sock in list(self._live):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        if self.uds and os.path.exists(self.uds):
            os.remove(self.uds)
        if self.errors:
            raise self.errors[0]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except Exception:
            if kind is None:
                raise


class TcpCounter(Listener):
    """Counts connections; closes each at once."""

    def serve(self, sock, number):
        pass


class Upstream(Listener):
    """See the module's text. `idle_close` ends a connection after that many idle seconds."""

    def __init__(self, script, idle_close=60.0, **where):
        self.script, self.idle_close = script, idle_close
        self.requests = []
        super().__init__(**where)

    def serve(self, sock, number):
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer, count = b"", 0
        while True:
            sock.settimeout(self.idle_close)
            try:
                read = read_request(sock, buffer)
            except TimeoutError:
                return
            if read is None:
                return
            head, body, raw_body, buffer = read
            count += 1
            request = Request(number, count, head, body, raw_body)
            with self.changed:
                self.requests.append(request)
                self.changed.notify_all()
            sock.settimeout(30)
            exchange = Exchange(self, sock, request)
            self.script(exchange)
            if not exchange.open:
                return


def read_request(sock, buffer):
    """(head, body, raw body, rest), or None when the client closed between requests."""
    while b"\r\n\r\n" not in buffer:
        data = sock.recv(65536)
        if not data:
            return None
        buffer += data
    head, _, rest = buffer.partition(b"\r\n\r\n")
    head += b"\r\n\r\n"
    fields = {}
    for row in head.split(b"\r\n")[1:]:
        key, _, value = row.partition(b":")
        fields[key.strip().lower()] = value.strip()

    def need(data, enough):
        while not enough(data):
            more = sock.recv(65536)
            if not more:
                raise ClientGone("closed inside a request")
            data += more
        return data

    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        body, raw = b"", b""
        while True:
            rest = need(rest, lambda d: b"\r\n" in d)
            line, _, tail = rest.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            tail = need(tail, lambda d: len(d) >= size + 2)
            raw += line + b"\r\n" + tail[:size + 2]
            body += tail[:size]
            rest = tail[size + 2:]
            if size == 0:
                return head, body, raw, rest
    length = int(fields.get(b"content-length", b"0"))
    rest = need(rest, lambda d: len(d) >= length)
    return head, rest[:length], rest[:length], rest[length:]


# ---- bytes to send ------------------------------------------------------------------------------

def answer(body, status="200 OK", headers=(), kind="application/json"):
    """A whole response with a length. `body` is bytes, text or something for JSON."""
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    data = body.encode() if isinstance(body, str) else body
    rows = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(rows).encode() + b"\r\n\r\n" + data


def stream_head(headers=()):
    """The head of an event stream in chunks."""
    rows = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream; charset=utf-8",
            "Transfer-Encoding: chunked", *headers]
    return "\r\n".join(rows).encode() + b"\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value):
    """One server-sent event in a chunk of its own: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    return chunk(f"data: {text}\n\n".encode())


END = chunk(b"")
