"""The tiny engine by itself: what the other tests rely on."""

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import clients
import engine
import pytest
import streams

OPENAI = ["models", "chat", "stream", "stream_usage", "completion", "abort", "abort_silent",
          "unknown_model", "wrong_key"]


def metric(url, name):
    text = urllib.request.urlopen(f"{url}/metrics", timeout=5).read().decode()
    return int(re.search(rf"^tiny:{name}\{{.*\}} (\d+)$", text, re.MULTILINE)[1])


def wait_for(predicate, seconds=10):
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_the_openai_sdk(tiny, sdk):
    seen = sdk("openai", tiny.url, "tiny-key", "tiny", *OPENAI, "embeddings")
    clients.check_openai(seen, "tiny")
    assert seen["embeddings"]["count"] == 2 and seen["embeddings"]["length"] == 64


def test_the_ai_sdk(tiny, sdk):
    seen = sdk("ai", tiny.url, "tiny-key", "tiny")
    clients.check_ai(seen)
    assert seen["embed"]["length"] == 64


def test_32_streams_at_once_are_whole_and_unmixed(tiny):
    for s in streams.count_many(32, tiny.url, "tiny", 30, key="tiny-key"):
        s.check(usage=True)


def test_the_end_of_counting(tiny):
    s = streams.count(tiny.url, "tiny", 996, 20, key="tiny-key", usage=False)
    s.check(usage=False)
    assert s.pieces == [" 997", " 998", " 999"] and s.finish == "stop"


def test_a_client_that_leaves_frees_its_slot(tiny):
    before = metric(tiny.url, "request_cancelled_total")
    s = streams.count(tiny.url, "tiny", 0, 900, key="tiny-key", abort_after=3)
    assert s.pieces[:3] == [" 1", " 2", " 3"]
    wait_for(lambda: metric(tiny.url, "num_requests_running") == 0)
    assert metric(tiny.url, "request_cancelled_total") == before + 1


def test_pieces_come_one_by_one():
    with engine.Engine(["--token-delay-ms", "30", "--served-model-name", "slow"]) as e:
        s = streams.count(e.url, "slow", 5, 10)
    s.check(usage=True)
    assert len(set(s.reads)) == 10 and min(s.gaps()) > 0.01


def test_a_unix_socket(scratch):
    path = f"{scratch}/tiny.sock"
    e = engine.Engine(["--uds", path, "--served-model-name", "tiny"], wait=False)
    with e:
        wait_for(lambda: "\nready\n" in e.output())
        streams.count("http://tiny", "tiny", 1, 5, uds=path).check(usage=True)
        e.process.send_signal(signal.SIGTERM)
        assert e.process.wait(10) == 0
    with pytest.raises(OSError):
        socket.socket(socket.AF_UNIX).connect(path)


def test_term_lets_a_stream_end():
    with engine.Engine(["--token-delay-ms", "20", "--served-model-name", "tiny"]) as e:
        running = subprocess.Popen(
            [sys.executable, streams.__file__, e.url, "tiny", "--clients", "1", "--tokens", "60"],
            stdout=subprocess.PIPE, text=True)
        wait_for(lambda: metric(e.url, "num_requests_running") == 1)
        e.process.send_signal(signal.SIGTERM)
        assert "1 of 1 streams exact" in running.communicate(timeout=20)[0]
        assert e.process.wait(10) == 0


@pytest.mark.parametrize("args, model, rc", [
    (["--exit-after-ms", "100", "--exit-code", "7"], None, 7),
    ([], "/nonexistent.gguf", 1),
    ([], engine.__file__, 1),
    (["--no-such-option"], None, 2),
])
def test_how_it_ends(args, model, rc):
    with engine.Engine(args, model=model, wait=False) as e:
        assert e.process.wait(20) == rc


def test_ignoring_term():
    with engine.Engine(["--ignore-term"]) as e:
        e.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "SIGTERM: ignored" in e.output())
        assert e.process.poll() is None
