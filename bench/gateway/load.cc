// Load generator for the gateway benchmark: one thread, epoll, loopback only. It checks what it
// reads, byte for byte and event for event, and prints one line of JSON.
//
//   bench_load unary PORT ...   keep-alive requests: closed loop, or open loop with --rate
//   bench_load sse PORT ...     streams; event delay from the timestamp in each event
//
//   --connections N   --seconds S (measured)   --warm S (before that)
//   --rate R          requests per second; latency counts from the intended time
//   --events N --gap-us G   of each stream      --usage 0|1   ask for usage (default 1)
//   --body BYTES      of the request            --key KEY     --model NAME
//   --pids A,B        CPU of these processes over exactly the measured time, and their memory
#include <dirent.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "content.h"
#include "net.h"

namespace {

using bench::now_ns;

struct Options {
  bool sse = false;
  int port = 0;
  size_t connections = 64;
  double seconds = 1, warm = 0.5, rate = 0;
  uint64_t events = 100, gap_us = 20000;
  bool usage = true;
  size_t body = 1500;
  std::string key = "sk-bench-000042-aaaaaaaaaaaaaaaaaaaaaaaa";
  std::string model = std::string(bench::kModel);
  std::vector<int> pids;
} options;

// ---- what is expected --------------------------------------------------------------------------

std::string reply_text;
bench::EventTemplate event_text("");

struct Tally {
  uint64_t done = 0, events = 0;
  uint64_t errors = 0;                   // connection lost, not 200
  uint64_t wrong = 0;                    // contents other than expected
  std::vector<uint32_t> latency, delay;  // in 0.1 us
} tally;

bool measuring = false;

void complain(const char* what) {
  if (++tally.wrong <= 3) fprintf(stderr, "wrong content: %s\n", what);
}

// ---- one response
// --------------------------------------------------------------------------------

// Takes the chunked framing away; hands out payload.
struct Chunks {
  enum class State : uint8_t { size, extension, data, data_end, trailer, done } state = State::size;
  uint64_t left = 0;
  uint32_t trailer_bytes = 0;

  template <class Sink>
  bool feed(const char* p, const char* end, Sink&& sink) {
    while (p < end && state != State::done) {
      switch (state) {
        case State::size: {
          const char c = *p++;
          if (isxdigit(static_cast<unsigned char>(c)))
            left = left * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
          else if (c == '\n')
            begin();
          else
            state = State::extension;
          break;
        }
        case State::extension:
          if (*p++ == '\n') begin();
          break;
        case State::data: {
          const size_t n = std::min<uint64_t>(left, static_cast<uint64_t>(end - p));
          sink(std::string_view(p, n));
          p += n;
          left -= n;
          if (left == 0) state = State::data_end;
          break;
        }
        case State::data_end:
          if (*p++ == '\n') state = State::size;
          break;
        case State::trailer: {
          const char c = *p++;
          if (c == '\n' && trailer_bytes == 0) state = State::done;
          if (c == '\n')
            trailer_bytes = 0;
          else if (c != '\r')
            ++trailer_bytes;
          break;
        }
        case State::done:
          break;
      }
    }
    return p == end;
  }

 private:
  void begin() {
    state = left ? State::data : State::trailer;
    trailer_bytes = 0;
  }
};

struct Connection {
  int fd = -1;
  bool busy = false, in_body = false, chunked = false;
  uint64_t intended_ns = 0;
  size_t length = 0, got = 0;
  uint64_t next_event = 0;
  bool usage_seen = false, done_seen = false;
  Chunks chunks;
  std::string head;     // of the response, while incomplete
  std::string partial;  // the beginning of an event
};

std::vector<Connection> connections;
std::vector<Connection*> idle;
int epoll_fd = -1;
std::string request;
uint64_t sampled = 0;

void check_event(Connection& c, std::string_view event) {
  if (event.size() == event_text.text.size() && !c.done_seen) {
    const char* p = event.data();
    const uint64_t sent =
        bench::read_digits(p + event_text.time_at, bench::EventTemplate::kTimeDigits);
    const uint64_t number =
        bench::read_digits(p + event_text.number_at, bench::EventTemplate::kNumberDigits);
    if (number != c.next_event++) complain("an event is missing, doubled or out of order");
    // Everything around the two numbers.
    const size_t middle = event_text.time_at + bench::EventTemplate::kTimeDigits;
    const size_t after = event_text.number_at + bench::EventTemplate::kNumberDigits;
    if (event.substr(0, event_text.time_at) !=
            std::string_view(event_text.text).substr(0, event_text.time_at) ||
        event.substr(middle, event_text.number_at - middle) !=
            std::string_view(event_text.text).substr(middle, event_text.number_at - middle) ||
        event.substr(after) != std::string_view(event_text.text).substr(after))
      complain("an event's bytes");
    if (!measuring) return;
    ++tally.events;
    if (sampled++ % 8 == 0) tally.delay.push_back(static_cast<uint32_t>((now_ns() - sent) / 100));
  } else if (event == "data: [DONE]\n\n") {
    c.done_seen = true;
  } else if (event.find("\"choices\":[],\"usage\":{\"prompt_tokens\":321") !=
             std::string_view::npos) {
    c.usage_seen = true;
  } else if (!event.starts_with(':')) {
    complain("an unexpected event");
  }
}

void take_payload(Connection& c, std::string_view payload) {
  while (!payload.empty()) {
    // Events end with a blank line; the mock uses LF only.
    if (!c.partial.empty()) {
      const size_t before = c.partial.size();
      c.partial.append(payload);
      const size_t end = c.partial.find("\n\n", before - 1);
      if (end == std::string::npos) return;
      check_event(c, std::string_view(c.partial).substr(0, end + 2));
      payload.remove_prefix(end + 2 - before);
      c.partial.clear();
      continue;
    }
    const void* end = memmem(payload.data(), payload.size(), "\n\n", 2);
    if (!end) {
      c.partial.assign(payload);
      return;
    }
    const size_t size = static_cast<size_t>(static_cast<const char*>(end) - payload.data()) + 2;
    check_event(c, payload.substr(0, size));
    payload.remove_prefix(size);
  }
}

void check_reply(Connection& c, std::string_view bytes) {
  const std::string_view expected =
      c.got < reply_text.size() ? std::string_view(reply_text).substr(c.got) : "";
  if (bytes != expected.substr(0, bytes.size())) complain("a reply's bytes");
  c.got += bytes.size();
}

// True when the response is complete.
bool take_body(Connection& c, std::string_view bytes) {
  if (!c.chunked) {
    check_reply(c, bytes);
    return c.got >= c.length;
  }
  if (!c.chunks.feed(bytes.data(), bytes.data() + bytes.size(), [&c](std::string_view payload) {
        options.sse ? take_payload(c, payload) : check_reply(c, payload);
      }))
    complain("bytes after the last chunk");
  if (c.chunks.state != Chunks::State::done) return false;
  if (!options.sse) {
    if (c.got != reply_text.size()) complain("a reply is short");
    return true;
  }
  if (c.next_event != options.events) complain("a stream is short");
  if (!c.done_seen || !c.partial.empty()) complain("a stream has no [DONE]");
  if (c.usage_seen != options.usage) complain("the usage event");
  return true;
}

bool take_response(Connection& c, std::string_view bytes) {
  if (c.in_body) return take_body(c, bytes);
  c.head.append(bytes);
  const size_t end = c.head.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  std::string fields = c.head.substr(0, end + 2);
  for (char& x : fields) x = static_cast<char>(tolower(x));
  if (fields.compare(9, 3, "200") != 0) {
    if (++tally.errors <= 3) fprintf(stderr, "not 200: %s\n", c.head.c_str());
  }
  const size_t length = fields.find("\r\ncontent-length:");
  c.chunked = length == std::string::npos;
  c.length = c.chunked ? 0 : strtoul(fields.c_str() + length + 17, nullptr, 10);
  if (options.sse && !c.chunked) complain("a stream with a length");
  c.in_body = true;
  const std::string rest = c.head.substr(end + 4);
  c.head.clear();
  return take_body(c, rest);
}

// ---- requests
// --------------------------------------------------------------------------------------

void fire(Connection& c, uint64_t intended_ns) {
  c.busy = true;
  c.in_body = c.usage_seen = c.done_seen = false;
  c.got = c.next_event = 0;
  c.chunks = {};
  c.intended_ns = intended_ns;
  c.partial.clear();
  if (send(c.fd, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    ++tally.errors;
}

void connect(Connection& c) {
  c.fd = bench::dial(options.port);
  bench::watch(epoll_fd, c.fd, EPOLLIN | EPOLLET, &c);
}

std::string make_request() {
  std::string body = "{\"model\":\"" + options.model +
                     R"(","messages":[{"role":"system","content":"You are a helpful assistant."},)"
                     R"({"role":"user","content":")";
  while (body.size() + 120 < options.body) body += R"(Explain the \"two\" phases, please. )";
  body += R"("}],"max_tokens":)" + std::to_string(options.events) +
          ",\"gap_us\":" + std::to_string(options.gap_us) + ",\"temperature\":0.7";
  if (options.sse) body += ",\"stream\":true";
  if (options.sse && options.usage) body += R"(,"stream_options":{"include_usage":true})";
  body += "}";
  // The head of the openai Python client: 16 fields, about 650 bytes.
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(options.port) +
         "\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
         "Accept: application/json\r\nContent-Type: application/json\r\n"
         "User-Agent: OpenAI/Python 1.54.0\r\nX-Stainless-Lang: python\r\n"
         "X-Stainless-Package-Version: 1.54.0\r\nX-Stainless-OS: Linux\r\n"
         "X-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n"
         "X-Stainless-Runtime-Version: 3.11.2\r\nAuthorization: Bearer " +
         options.key +
         "\r\nX-Stainless-Async: false\r\nX-Stainless-Retry-Count: 0\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// ---- figures
// ---------------------------------------------------------------------------------------

// Time on a CPU of all threads of a process, in ns.
uint64_t cpu_ns(int pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* directory = opendir(tasks.c_str());
  if (!directory) return 0;
  uint64_t sum = 0;
  while (dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    FILE* file = fopen((tasks + "/" + entry->d_name + "/schedstat").c_str(), "r");
    unsigned long long value = 0;
    if (file && fscanf(file, "%llu", &value) == 1) sum += value;
    if (file) fclose(file);
  }
  closedir(directory);
  return sum;
}

uint64_t rss_kb(int pid) {
  FILE* file = fopen(("/proc/" + std::to_string(pid) + "/statm").c_str(), "r");
  unsigned long long size = 0, resident = 0;
  if (!file) return 0;
  if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
  fclose(file);
  return resident * 4;
}

uint64_t own_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

double percentile_us(std::vector<uint32_t>& values, double q) {
  if (values.empty()) return 0;
  const size_t k =
      std::min(values.size() - 1, static_cast<size_t>(static_cast<double>(values.size()) * q));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(k), values.end());
  return values[k] / 10.0;
}

template <class F>
std::string json_list(F&& value_of) {
  std::string out = "[";
  for (int pid : options.pids) {
    if (out.size() > 1) out += ",";
    out += std::to_string(value_of(pid));
  }
  return out + "]";
}

// ---- the run
// ---------------------------------------------------------------------------------------

class Run {
 public:
  void go() {
    connections.resize(options.connections);
    const std::string rss_before = json_list(rss_kb);
    for (Connection& c : connections) connect(c);
    if (options.rate > 0)
      for (Connection& c : connections) idle.push_back(&c);
    start_ns_ = now_ns();
    measure_ns_ = start_ns_ + static_cast<uint64_t>(options.warm * 1e9);
    end_ns_ = measure_ns_ + static_cast<uint64_t>(options.seconds * 1e9);
    const int timer = bench::new_timer(options.rate > 0 ? 200'000 : 1'000'000);
    bench::watch(epoll_fd, timer, EPOLLIN, nullptr);
    start_some(now_ns());
    for (;;) {
      epoll_event events[512];
      const int n = epoll_wait(epoll_fd, events, 512, -1);
      const uint64_t now = now_ns();
      if (!measuring && now >= measure_ns_) begin_measuring(now);
      if (now >= end_ns_) break;
      for (int i = 0; i < n; ++i) {
        if (!events[i].data.ptr) {
          bench::clear_timer(timer);
          start_some(now);
        } else {
          read_from(*static_cast<Connection*>(events[i].data.ptr));
        }
      }
    }
    report(rss_before);
  }

 private:
  void begin_measuring(uint64_t now) {
    measuring = true;
    tally.done = 0;
    measured_from_ns_ = now;
    for (int pid : options.pids) cpu_before_.push_back(cpu_ns(pid));
    own_before_ = own_cpu_ns();
  }

  // Open loop: fires what is due. Closed loop: starts the connections, streams over the warm-up.
  void start_some(uint64_t now) {
    if (options.rate > 0) {
      const double step = 1e9 / options.rate;
      for (uint64_t due;
           (due = start_ns_ + static_cast<uint64_t>(static_cast<double>(fired_) * step)) <= now;
           ++fired_) {
        if (idle.empty()) return;  // behind; the latency will show it
        Connection* c = idle.back();
        idle.pop_back();
        fire(*c, due);
      }
      return;
    }
    size_t wanted = options.connections;
    if (options.sse) {
      const double part = static_cast<double>(now - start_ns_) / (options.warm * 0.6e9);
      wanted = std::min(wanted, static_cast<size_t>(static_cast<double>(wanted) * part) + 1);
    }
    while (fired_ < wanted) fire(connections[fired_++], now_ns());
  }

  void again(Connection& c) {
    c.busy = false;
    if (options.rate > 0)
      idle.push_back(&c);
    else
      fire(c, now_ns());
  }

  void read_from(Connection& c) {
    static char buffer[1 << 18];
    for (;;) {
      const ssize_t n = recv(c.fd, buffer, sizeof buffer, 0);
      if (n <= 0) {
        if (n < 0 && errno == EAGAIN) return;
        ++tally.errors;
        close(c.fd);
        c.head.clear();
        connect(c);
        if (c.busy) again(c);
        return;
      }
      if (take_response(c, {buffer, static_cast<size_t>(n)})) {
        const uint64_t now = now_ns();
        if (measuring) {
          ++tally.done;
          if (!options.sse)
            tally.latency.push_back(static_cast<uint32_t>((now - c.intended_ns) / 100));
        }
        again(c);
        if (options.rate > 0) start_some(now);
      }
      if (n < static_cast<ssize_t>(sizeof buffer)) return;
    }
  }

  void report(const std::string& rss_before) {
    const double seconds = static_cast<double>(now_ns() - measured_from_ns_) / 1e9;
    const uint64_t own = own_cpu_ns() - own_before_;
    size_t i = 0;
    const std::string cpu = json_list(
        [&](int pid) { return static_cast<double>(cpu_ns(pid) - cpu_before_[i++]) / 1e9; });
    printf(
        "{\"seconds\":%.3f,\"done\":%llu,\"events\":%llu,\"errors\":%llu,\"wrong\":%llu,"
        "\"p50_us\":%.1f,\"p99_us\":%.1f,\"delay_p50_us\":%.1f,\"delay_p99_us\":%.1f,"
        "\"load_cpu\":%.3f,\"cpu_s\":%s,\"rss_before_kb\":%s,\"rss_after_kb\":%s}\n",
        seconds, static_cast<unsigned long long>(tally.done),
        static_cast<unsigned long long>(tally.events),
        static_cast<unsigned long long>(tally.errors), static_cast<unsigned long long>(tally.wrong),
        percentile_us(tally.latency, .5), percentile_us(tally.latency, .99),
        percentile_us(tally.delay, .5), percentile_us(tally.delay, .99),
        static_cast<double>(own) / 1e9 / seconds, cpu.c_str(), rss_before.c_str(),
        json_list(rss_kb).c_str());
  }

  uint64_t start_ns_ = 0, measure_ns_ = 0, end_ns_ = 0, measured_from_ns_ = 0, fired_ = 0;
  uint64_t own_before_ = 0;
  std::vector<uint64_t> cpu_before_;
};

bool parse(int argc, char** argv) {
  if (argc < 3) return false;
  const std::string_view mode = argv[1];
  if (mode != "unary" && mode != "sse") return false;
  options.sse = mode == "sse";
  options.port = atoi(argv[2]);
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--connections")
      options.connections = strtoul(value, nullptr, 10);
    else if (name == "--seconds")
      options.seconds = atof(value);
    else if (name == "--warm")
      options.warm = atof(value);
    else if (name == "--rate")
      options.rate = atof(value);
    else if (name == "--events")
      options.events = strtoul(value, nullptr, 10);
    else if (name == "--gap-us")
      options.gap_us = strtoul(value, nullptr, 10);
    else if (name == "--usage")
      options.usage = *value == '1';
    else if (name == "--body")
      options.body = strtoul(value, nullptr, 10);
    else if (name == "--key")
      options.key = value;
    else if (name == "--model")
      options.model = value;
    else if (name == "--pids")
      for (char* p = const_cast<char*>(value); *p;) {
        options.pids.push_back(static_cast<int>(strtol(p, &p, 10)));
        if (*p) ++p;
      }
    else
      return false;
  }
  return argc % 2 == 1 && options.seconds + options.warm <= 120;
}

}  // namespace

int main(int argc, char** argv) {
  if (!parse(argc, argv)) {
    fprintf(stderr, "usage: bench_load unary|sse PORT [--OPTION VALUE]...  (see load.cc)\n");
    return 2;
  }
  bench::prepare_process();
  epoll_fd = bench::new_epoll();
  request = make_request();
  reply_text = bench::reply_body(options.model);
  event_text = bench::EventTemplate(options.model);
  Run run;
  run.go();
  return tally.wrong || tally.errors ? 1 : 0;
}
