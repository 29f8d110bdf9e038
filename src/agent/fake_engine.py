#!/usr/bin/env python3
"""An engine for tests of the agent. It imitates an OpenAI-compatible server; it holds no model.

  fake_engine.py (--uds PATH | --port N) [--model NAME] [--load SECONDS] [--fail] [--log FILE]

Until --load seconds have passed nothing listens, as with vLLM. Each SIGTERM is a line in the log;
after the first one it ends as soon as no request is in flight. A completion's prompt tells what to
do: "count N MS" streams N events, MS milliseconds apart; "hold FILE" streams one event, waits until
FILE is there (at most a minute), and streams another; "crash" ends the process with status 3.
"""

import argparse
import http.server
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time

busy = 0
stopping = False
lock = threading.Lock()


def note(text):
    if args.log:
        with open(args.log, "a") as f:
            f.write(f"{time.time():.6f} {text}\n")


def end_if_idle():
    with lock:
        if stopping and busy == 0:
            os._exit(0)


def on_term(_signal, _frame):
    global stopping
    note("TERM")
    stopping = True
    threading.Thread(target=end_if_idle).start()


class Door(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *_):
        pass

    def address_string(self):
        return "local"

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            self.answer(200, {"object": "list",
                              "data": [{"id": args.model, "object": "model",
                                        "max_model_len": 4096}]})
        elif self.path == "/env":
            self.answer(200, dict(os.environ))
        else:
            self.answer(404, {"error": {"message": "no such route"}})

    def do_POST(self):
        global busy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with lock:
            busy += 1
        try:
            self.complete(json.loads(body or b"{}"))
        finally:
            with lock:
                busy -= 1
            end_if_idle()

    def complete(self, request):
        prompt = str(request.get("prompt", "")).split()
        if self.path not in ("/v1/completions", "/secret-route"):
            return self.answer(404, {"error": {"message": "no such route"}})
        if prompt[:1] == ["crash"]:
            print("RuntimeError: the fake engine was told to crash", file=sys.stderr, flush=True)
            os._exit(3)
        if prompt[:1] == ["headers"]:
            return self.answer(200, {k.lower(): v for k, v in self.headers.items()})
        if prompt[:1] not in (["count"], ["hold"]):
            return self.answer(200, {"choices": [{"text": "1", "index": 0}]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if prompt[0] == "hold":
            self.chunk(b"data: 0\n\n")
            for _ in range(6000):
                if os.path.exists(prompt[1]):
                    break
                time.sleep(0.01)
            self.chunk(b"data: 1\n\n")
        else:
            for i in range(int(prompt[1])):
                self.chunk(f"data: {i}\n\n".encode())
                time.sleep(int(prompt[2]) / 1000)
        self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


class TcpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    address_family = socket.AF_INET
    request_queue_size = 128


parser = argparse.ArgumentParser()
parser.add_argument("--uds")
parser.add_argument("--port", type=int)
parser.add_argument("--model", default="fake")
parser.add_argument("--load", type=float, default=0)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--log")
args = parser.parse_args()
note("exec")
signal.signal(signal.SIGTERM, on_term)
if args.fail:
    print("ValueError: no such model", file=sys.stderr, flush=True)
    sys.exit(1)
if args.load:
    time.sleep(args.load)
server = UnixServer(args.uds, Door) if args.uds else TcpServer(("127.0.0.1", args.port), Door)
note("listens")
server.serve_forever()
