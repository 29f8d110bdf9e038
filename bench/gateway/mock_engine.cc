// A mock engine for the benchmark: answers at once, or streams at a fixed pace. It holds no model.
// One thread, edge-triggered epoll, a timer wheel of 1 ms.
//   bench_mock_engine PORT...
//
// POST (any path): "stream":true in the body asks for Server-Sent Events, "max_tokens":N of them,
// one every "gap_us":G, each in one chunk and one write; "include_usage":true adds the usage
// event. Otherwise a reply of about 1 KB. GET /health and /v1/models answer 200; GET /stats counts.
#include <cstring>
#include <string>
#include <vector>

#include "content.h"
#include "net.h"

namespace {

using bench::now_ns;

struct Connection {
  int fd = -1;
  unsigned generation = 0;  // rises when the stream ends, so that old wheel slots are ignored
  bool streaming = false;
  bool usage = false;
  bool dead = false;
  uint64_t sent = 0, total = 0;
  uint64_t gap_ns = 0, due_ns = 0;
  std::string in, unsent;
};

struct Slot {
  Connection* connection;
  unsigned generation;
};

constexpr size_t kWheel = 8192;
std::vector<Slot> wheel[kWheel];
uint64_t wheel_start_ns, wheel_tick;
std::vector<Connection*> closed, spare;

struct Stats {
  uint64_t requests = 0, streams = 0, cancelled = 0, active = 0, events = 0;
} stats;

std::string reply, stream_head, event_chunk;
size_t time_at, number_at;  // in event_chunk

void end_stream(Connection* c) {
  c->streaming = false;
  ++c->generation;
  --stats.active;
}

void drop(Connection* c) {
  if (c->dead) return;
  if (c->streaming) {
    ++stats.cancelled;
    end_stream(c);
  }
  c->dead = true;
  close(c->fd);
  closed.push_back(c);
}

// False when the connection is gone.
bool put(Connection* c, std::string_view bytes) {
  if (c->unsent.empty()) {
    const ssize_t n = send(c->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n == static_cast<ssize_t>(bytes.size())) return true;
    if (n < 0 && errno != EAGAIN) {
      drop(c);
      return false;
    }
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  c->unsent.append(bytes);
  return true;
}

void schedule(Connection* c) {
  uint64_t tick = (c->due_ns - wheel_start_ns) / 1'000'000;
  tick = std::max(tick, wheel_tick + 1);
  tick = std::min(tick, wheel_tick + kWheel - 1);
  wheel[tick % kWheel].push_back({c, c->generation});
}

void handle_requests(Connection* c);

void finish_stream(Connection* c) {
  std::string end;
  if (c->usage) {
    char usage[400];
    const int n = snprintf(
        usage, sizeof usage,
        "data: {\"id\":\"chatcmpl-8f3a0c1b2d4e4f5a9b7c6d5e4f3a2b1c\",\"object\":"
        "\"chat.completion.chunk\",\"created\":1730000000,\"model\":\"m1\",\"choices\":[],"
        "\"usage\":{\"prompt_tokens\":321,\"total_tokens\":%llu,\"completion_tokens\":%llu,"
        "\"prompt_tokens_details\":null}}\n\n",
        static_cast<unsigned long long>(321 + c->total), static_cast<unsigned long long>(c->total));
    char size[16];
    snprintf(size, sizeof size, "%x\r\n", n);
    end.append(size).append(usage, static_cast<size_t>(n)).append("\r\n");
  }
  end.append("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
  end_stream(c);
  if (put(c, end)) handle_requests(c);
}

// Sends the events that are due.
void emit(Connection* c) {
  const uint64_t now = now_ns();
  while (c->sent < c->total && c->due_ns <= now && c->unsent.empty()) {
    bench::write_digits(&event_chunk[time_at], bench::EventTemplate::kTimeDigits, now_ns());
    bench::write_digits(&event_chunk[number_at], bench::EventTemplate::kNumberDigits, c->sent);
    ++c->sent;
    ++stats.events;
    c->due_ns += c->gap_ns;
    if (!put(c, event_chunk)) return;
  }
  if (c->sent < c->total)
    schedule(c);
  else
    finish_stream(c);
}

uint64_t number_after(std::string_view text, std::string_view key, uint64_t otherwise) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? otherwise
                                      : strtoull(text.data() + at + key.size(), nullptr, 10);
}

void answer_get(Connection* c, std::string_view head) {
  std::string body = R"({"object":"list","data":[{"id":"m1","object":"model"}]})";
  if (head.starts_with("GET /stats")) {
    char text[256];
    snprintf(text, sizeof text,
             "{\"requests\":%llu,\"streams\":%llu,\"cancelled\":%llu,\"active\":%llu,"
             "\"events\":%llu}\n",
             static_cast<unsigned long long>(stats.requests),
             static_cast<unsigned long long>(stats.streams),
             static_cast<unsigned long long>(stats.cancelled),
             static_cast<unsigned long long>(stats.active),
             static_cast<unsigned long long>(stats.events));
    body = text;
  }
  put(c, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body);
}

void start_stream(Connection* c, const std::string& body) {
  c->sent = 0;
  c->total = number_after(body, "\"max_tokens\":", 50);
  c->gap_ns = number_after(body, "\"gap_us\":", 0) * 1000;
  c->usage = body.find("\"include_usage\":true") != std::string::npos;
  c->streaming = true;
  ++stats.streams;
  ++stats.active;
  if (!put(c, stream_head)) return;
  // Streams that begin together do not tick together.
  const uint64_t gap_ms = c->gap_ns / 1'000'000;
  c->due_ns = now_ns() + (gap_ms ? static_cast<uint64_t>(rand()) % (gap_ms + 1) * 1'000'000 : 0);
  schedule(c);
}

// Answers the complete requests that have come in.
void handle_requests(Connection* c) {
  while (!c->dead && !c->streaming) {
    const size_t end = c->in.find("\r\n\r\n");
    if (end == std::string::npos) return;
    const char* length = strcasestr(c->in.c_str(), "content-length:");
    const bool has_length = length && static_cast<size_t>(length - c->in.data()) < end;
    const size_t size = has_length ? strtoul(length + 15, nullptr, 10) : 0;
    if (c->in.size() < end + 4 + size) return;
    const std::string head = c->in.substr(0, end), body = c->in.substr(end + 4, size);
    c->in.erase(0, end + 4 + size);
    if (head.starts_with("GET ")) {
      answer_get(c, head);
      continue;
    }
    ++stats.requests;
    if (body.find("\"stream\":true") != std::string::npos)
      start_stream(c, body);
    else
      put(c, reply);
  }
}

void read_all(Connection* c, bool hang_up) {
  static char buffer[65536];
  for (;;) {
    const ssize_t n = read(c->fd, buffer, sizeof buffer);
    if (n > 0) {
      c->in.append(buffer, static_cast<size_t>(n));
      if (n < static_cast<ssize_t>(sizeof buffer) && !hang_up) break;
      continue;
    }
    if (n == 0 || errno != EAGAIN) drop(c);
    break;
  }
  if (!c->dead) handle_requests(c);
}

void accept_all(int listener, int epoll) {
  for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    bench::set_nodelay(fd);
    Connection* c;
    if (spare.empty()) {
      c = new Connection;
    } else {
      c = spare.back();
      spare.pop_back();
      c->in.clear();
      c->unsent.clear();
      c->dead = false;
    }
    c->fd = fd;
    bench::watch(epoll, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, c);
  }
}

void turn_wheel() {
  const uint64_t tick = (now_ns() - wheel_start_ns) / 1'000'000;
  while (wheel_tick < tick) {
    std::vector<Slot> due;
    due.swap(wheel[++wheel_tick % kWheel]);
    for (const Slot& slot : due) {
      Connection* c = slot.connection;
      if (!c->dead && c->streaming && slot.generation == c->generation) emit(c);
    }
  }
}

void prepare_texts() {
  constexpr std::string_view kFields =
      "HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\n";
  const std::string body = bench::reply_body(bench::kModel);
  reply = std::string(kFields) + "content-length: " + std::to_string(body.size()) +
          "\r\ncontent-type: application/json\r\n\r\n" + body;
  stream_head = std::string(kFields) +
                "content-type: text/event-stream; charset=utf-8\r\n"
                "transfer-encoding: chunked\r\n\r\n";
  const bench::EventTemplate event(bench::kModel);
  char size[16];
  const int n = snprintf(size, sizeof size, "%zx\r\n", event.text.size());
  event_chunk = size + event.text + "\r\n";
  time_at = event.time_at + static_cast<size_t>(n);
  number_at = event.number_at + static_cast<size_t>(n);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_mock_engine PORT...\n");
    return 2;
  }
  bench::prepare_process();
  prepare_texts();
  wheel_start_ns = now_ns();
  const int epoll = bench::new_epoll(), timer = bench::new_timer(1'000'000);
  // Listeners and the timer are told from connections by their address.
  std::vector<int> fds{timer};
  for (int i = 1; i < argc; ++i) fds.push_back(bench::listen_on(atoi(argv[i])));
  for (int& fd : fds) bench::watch(epoll, fd, EPOLLIN, &fd);
  for (;;) {
    epoll_event events[512];
    const int n = epoll_wait(epoll, events, 512, -1);
    for (int i = 0; i < n; ++i) {
      void* who = events[i].data.ptr;
      if (who == &fds[0]) {
        bench::clear_timer(timer);
        turn_wheel();
        continue;
      }
      if (who > &fds[0] && who <= &fds.back()) {
        accept_all(*static_cast<int*>(who), epoll);
        continue;
      }
      Connection* c = static_cast<Connection*>(who);
      const uint32_t what = events[i].events;
      if (c->dead) continue;
      if (what & EPOLLOUT && !c->unsent.empty()) {
        const ssize_t sent = send(c->fd, c->unsent.data(), c->unsent.size(), MSG_NOSIGNAL);
        if (sent > 0) c->unsent.erase(0, static_cast<size_t>(sent));
      }
      if (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        read_all(c, what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    }
    // Wheel slots may still point at closed connections: they are reused, never freed.
    spare.insert(spare.end(), closed.begin(), closed.end());
    closed.clear();
  }
}
