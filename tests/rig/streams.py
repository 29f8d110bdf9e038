#!/usr/bin/env python3
"""Streams whose every piece is known in advance: asks a model that counts, and checks the answer.

    s = count("http://127.0.0.1:8000", "tiny", start=41, tokens=20, key="...")
    s.check()                          # raises AssertionError that says what was wrong
    s.times, s.gaps()                  # when each piece arrived

  streams.py URL MODEL [--clients 32] [--tokens 50] [--key KEY] [--uds PATH]

Each client asks for another start, so that a piece of one client's stream in another's shows.
Standard library only; one thread a stream. A piece's time is taken when the bytes that end its
event have been read from the socket.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass, field

LAST = 999  # the greatest number the model says


@dataclass
class Stream:
    start: int
    tokens: int
    status: int = 0
    pieces: list = field(default_factory=list)
    times: list = field(default_factory=list)  # seconds after the request was sent
    reads: list = field(default_factory=list)  # number of the read that brought each piece
    finish: str = ""
    usage: dict = None
    usages: int = 0
    done: bool = False
    head: bytes = b""
    body: bytes = b""  # of an answer that is no stream
    error: str = ""

    def expected(self):
        return [f" {n}" for n in range(self.start + 1, min(self.start + self.tokens, LAST) + 1)]

    def check(self, usage=None):
        """That the stream is whole and in order; `usage`: whether one must, or must not, come."""
        what = f"the stream from {self.start}"
        assert self.status == 200, f"{what}: status {self.status}: {self.body[:300]} {self.error}"
        assert not self.error, f"{what}: {self.error} after {len(self.pieces)} pieces"
        assert self.pieces == self.expected(), f"{what}: {self.pieces[:5]}...{self.pieces[-5:]}"
        assert self.done, f"{what}: no [DONE]"
        full = self.start + self.tokens <= LAST
        assert self.finish == ("length" if full else "stop"), f"{what}: finish {self.finish}"
        if usage is True:
            assert self.usages == 1, f"{what}: {self.usages} usages"
            assert self.usage["completion_tokens"] == len(self.pieces), f"{what}: {self.usage}"
        if usage is False:
            assert self.usages == 0, f"{what}: a usage nobody asked for: {self.usage}"

    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]


def connect(url, uds=None, timeout=30):
    if uds:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(uds)
        return s
    at = urllib.parse.urlsplit(url)
    s = socket.create_connection((at.hostname, at.port or 80), timeout=timeout)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def request_bytes(url, model, start, tokens, key, usage, headers):
    body = {"model": model, "messages": [{"role": "user", "content": f"count from {start}"}],
            "max_tokens": tokens, "temperature": 0, "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    data = json.dumps(body).encode()
    rows = ["POST /v1/chat/completions HTTP/1.1", f"Host: {urllib.parse.urlsplit(url).netloc}",
            "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    if key:
        rows.append(f"Authorization: Bearer {key}")
    return "\r\n".join(rows).encode() + b"\r\n\r\n" + data


class Decoder:
    """The body of a response from the bytes as they come: chunked, or by length."""

    def __init__(self, head):
        fields = {row.split(b":")[0].lower(): row.partition(b":")[2].strip()
                  for row in head.split(b"\r\n")[1:] if b":" in row}
        self.chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
        self.left = None if self.chunked else int(fields.get(b"content-length", b"-1"))
        self.raw = b""
        self.ended = self.left == 0

    def feed(self, data):
        if not self.chunked:
            if self.left > 0:
                self.left -= len(data)
                self.ended = self.left <= 0
            return data
        self.raw += data
        out = b""
        while b"\r\n" in self.raw:
            line, _, rest = self.raw.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if len(rest) < size + 2:
                break
            if size == 0:
                self.ended = True
                break
            out += rest[:size]
            self.raw = rest[size + 2:]
        return out


def take_event(stream, text, now, read):
    if text == b"[DONE]":
        stream.done = True
        return
    value = json.loads(text)
    if value.get("error"):
        stream.error = f"error event: {value['error']}"
    if value.get("usage"):
        stream.usage = value["usage"]
        stream.usages += 1
    for choice in value.get("choices", []):
        stream.finish = choice.get("finish_reason") or stream.finish
        if choice.get("delta", {}).get("content"):
            stream.pieces.append(choice["delta"]["content"])
            stream.times.append(now)
            stream.reads.append(read)


def read_stream(sock, stream, began, abort_after):
    data, reads = b"", 0
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            stream.error = "closed before a head"
            return
        data += more
    stream.head, _, data = data.partition(b"\r\n\r\n")
    stream.status = int(stream.head.split(b" ", 2)[1])
    decoder, pending = Decoder(stream.head), b""
    while True:
        reads += 1
        now = time.monotonic() - began
        body = decoder.feed(data)
        if stream.status != 200:
            stream.body += body
        pending += body
        *events, pending = pending.replace(b"\r\n", b"\n").split(b"\n\n")
        for text in events:
            for row in text.split(b"\n"):
                if row.startswith(b"data:"):
                    take_event(stream, row[5:].strip(), now, reads)
        if abort_after and len(stream.pieces) >= abort_after or decoder.ended:
            return
        data = sock.recv(65536)
        if not data:
            if stream.status == 200 and decoder.left != -1 and not decoder.ended:
                stream.error = "cut: the connection closed inside the answer"
            return


def count(url, model, start=0, tokens=20, key="", usage=True, headers=(), uds=None,
          abort_after=0, timeout=30):
    """One stream. Never raises for what the server does: see Stream.error and status."""
    stream = Stream(start, tokens)
    try:
        with connect(url, uds, timeout) as sock:
            began = time.monotonic()
            sock.sendall(request_bytes(url, model, start, tokens, key, usage, headers))
            read_stream(sock, stream, began, abort_after)
    except (OSError, ValueError) as e:
        stream.error = f"{type(e).__name__}: {e}"
    return stream


def count_many(clients, url, model, tokens=20, **options):
    """Streams at once, each from another start. Returns them in order of their starts."""
    streams = [None] * clients

    def one(i):
        streams[i] = count(url, model, start=i * 900 // clients, tokens=tokens, **options)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return streams


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("url")
    p.add_argument("model")
    p.add_argument("--clients", type=int, default=32)
    p.add_argument("--tokens", type=int, default=50)
    p.add_argument("--key", default=os.environ.get("BERTH_KEY", ""))
    p.add_argument("--uds")
    a = p.parse_args()
    began = time.monotonic()
    streams = count_many(a.clients, a.url, a.model, a.tokens, key=a.key, uds=a.uds)
    seconds, wrong = time.monotonic() - began, 0
    for s in streams:
        try:
            s.check(usage=True)
        except AssertionError as e:
            wrong += 1
            print(e)
    pieces = sum(len(s.pieces) for s in streams)
    first = max((s.times[0] for s in streams if s.times), default=0)
    print(f"{len(streams) - wrong} of {len(streams)} streams exact, "
          f"{pieces / seconds:.0f} pieces/s, "
          f"slowest first piece {first * 1000:.0f} ms")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
