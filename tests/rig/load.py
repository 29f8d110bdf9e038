"""Clients that stream without pause from a model that counts; every piece is checked.

    with Load(url, model, key, clients=16) as load:
        ...                       # whatever is to go unnoticed
    load.check()                  # no answer failed, was cut, or had a piece twice
    load.answers, load.failures   # how many; [(seconds since the start, what was wrong)]

One thread a client; a client's next request follows its last answer at once.
"""

import threading
import time

import streams


class Load:
    def __init__(self, url, model, key, clients=16, tokens=40, pause=0.0, timeout=60):
        self.url, self.model, self.key = url, model, key
        self.clients, self.tokens, self.pause, self.timeout = clients, tokens, pause, timeout
        self.answers, self.failures = 0, []
        self.longest = 0.0  # seconds to a first piece
        self.served_by = set()
        self.began = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = []

    def __enter__(self):
        self.began = time.monotonic()
        self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True)
                         for i in range(self.clients)]
        for t in self._threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends after the answers that are on their way."""
        self._over.set()
        for t in self._threads:
            t.join()

    def check(self):
        assert self.answers > 0, "nothing was answered"
        shown = "\n".join(f"  {at:.1f} s: {what}" for at, what in self.failures[:20])
        assert not self.failures, f"{len(self.failures)} of {self.answers} answers:\n{shown}"

    def _run(self, i):
        round_ = 0
        while not self._over.is_set():
            start = (i * 53 + round_ * 7) % 900  # another start than its neighbours and than before
            round_ += 1
            s = streams.count(self.url, self.model, start, self.tokens, self.key,
                              timeout=self.timeout)
            self._note(s)
            if self.pause:
                self._over.wait(self.pause)

    def _note(self, s):
        try:
            s.check(usage=True)
            wrong = None
        except AssertionError as e:
            wrong = str(e)
        with self._lock:
            self.answers += 1
            if s.times:
                self.longest = max(self.longest, s.times[0])
            if wrong:
                self.failures.append((time.monotonic() - self.began, wrong))
