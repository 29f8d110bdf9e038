#include "cli/cmd_inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/call.h"
#include "config/yaml_read.h"

namespace berth::cli {
namespace {

Colour colour_of(const std::string& state) {
  if (state == "ready") return Colour::green;
  if (state == "failed" || state == "unhealthy") return Colour::red;
  if (state == "ended" || state == "stopped" || state == "asleep") return Colour::grey;
  return Colour::yellow;
}

std::string left(const Json& replica) {
  int64_t s = number_of(replica, "time_left_s", -1);
  return s < 0 ? "-" : to_human(seconds(s));
}

// "in 12m" or "12m ago" of a time in a document; "" when it has none.
std::string relative(const Json& object, std::string_view member, Instant now) {
  auto t = parse_rfc3339(text_of(object, member));
  if (!t) return "";
  return *t > now ? "in " + to_human(*t - now) : to_human(now - *t) + " ago";
}

// The first line of what may go on with an engine's last words.
std::string first_line(const std::string& text, size_t most = std::string::npos) {
  std::string line = text.substr(0, text.find('\n'));
  return line.size() > most ? line.substr(0, most) + "..." : line;
}

// Slurm's reason; "None" says that it has not looked at the job yet.
std::string reason_of(const Json& replica) {
  std::string reason = text_of(replica, "reason");
  return reason == "None" ? "" : reason;
}

// Where it runs, or why it does not.
std::string place_of(const Json& replica) {
  std::string state = text_of(replica, "state");
  if (state == "ended") {
    std::string cause = text_of(replica, "end_cause");
    return fmt::format("({})", cause.empty() ? "ended" : cause);
  }
  std::string node = text_of(replica, "node");
  if (!node.empty()) return node;
  std::string why = text_of(replica, "submit_error");
  if (why.empty()) why = reason_of(replica);
  return why.empty() ? "-" : fmt::format("({})", first_line(why, 60));
}

std::string job_of(const Json& object) {
  int64_t id = number_of(object, "job_id");
  std::string cluster = text_of(object, "cluster");
  if (id == 0) return "-";
  return cluster.empty() ? std::to_string(id) : fmt::format("{}@{}", id, cluster);
}

bool is_live(const Json& replica) { return text_of(replica, "state") != "ended"; }

enum class Which { live, all };

void add_service(Table& table, const Json& service, Which which) {
  std::string status = text_of(service, "status");
  std::vector<Cell> head = {
      {text_of(service, "name")},
      {status, colour_of(status)},
      {fmt::format("{}/{}", number_of(service, "ready"), number_of(service, "wanted_replicas"))}};
  auto row = [&](std::vector<Cell> cells) {
    std::vector<Cell> all = head;
    all.insert(all.end(), cells.begin(), cells.end());
    table.add(std::move(all));
    head = {{""}, {""}, {""}};  // said once
  };
  bool any = false;
  for (const Json& replica : list_of(service, "replicas")) {
    if (which == Which::live && !is_live(replica)) continue;
    std::string state = text_of(replica, "state");
    row({{job_of(replica)}, {state, colour_of(state)}, {left(replica)}, {place_of(replica)}});
    any = true;
  }
  // A self-registered service has leases and no replicas of ours.
  if (service.value("self_registered", Json(false)) == Json(true))
    for (const Json& lease : list_of(service, "leases")) {
      std::string state = text_of(lease, "state");
      row({{job_of(lease)}, {state, colour_of(state)}, {left(lease)}, {text_of(lease, "node")}});
      any = true;
    }
  std::string words = status_words(service);
  if (!any) row({{"-"}, {"-"}, {"-"}, {words.empty() ? "-" : first_line(words, 100)}});
}

void describe(Context& context, const Json& service) {
  auto spec = service.find("spec");
  if (spec != service.end() && spec->is_object())
    context.out(fmt::format("engine {}, model {}\n", text_of(*spec, "engine"),
                            text_of(*spec, "model").empty() ? "-" : text_of(*spec, "model")));
  context.out(fmt::format("owner {}, project {}, generation {}\n", text_of(service, "owner"),
                          text_of(service, "project").empty() ? "-" : text_of(service, "project"),
                          number_of(service, "generation")));
  if (std::string text = text_of(service, "status_text"); !text.empty()) context.out(text + "\n");
  for (const Json& lease : list_of(service, "leases"))
    if (std::string detail = text_of(lease, "detail"); !detail.empty())
      context.out(fmt::format("job {}: {}: {}\n", job_of(lease), text_of(lease, "state"),
                              first_line(detail)));
}

Table service_table() {
  return Table({"NAME", "STATUS", "READY", "JOBID", "STATE", "LEFT", "NODE (REASON)"});
}

std::string indented(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::string out = "    ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

enum class LastWords { shown, left_out };

std::string ended_line(const Json& replica, Instant now, LastWords last_words) {
  std::string detail = text_of(replica, "end_detail");
  std::string line = fmt::format(" ({})", text_of(replica, "end_cause"));
  if (std::string when = relative(replica, "ended_at", now); !when.empty()) line += " " + when;
  if (!detail.empty()) line += ": " + first_line(detail);
  size_t more = detail.find('\n');
  if (more != std::string::npos && last_words == LastWords::shown)
    line += "\n" + indented(detail.substr(more + 1));
  return line;
}

std::string live_line(const Json& replica, Instant now) {
  std::string line;
  if (std::string reason = reason_of(replica); !reason.empty()) line += ", reason " + reason;
  if (std::string start = relative(replica, "estimated_start", now); !start.empty())
    line += ", estimated start " + start;
  if (std::string rest = left(replica); rest != "-") line += ", " + rest + " left";
  if (std::string why = text_of(replica, "stopping"); !why.empty()) line += ", stopping: " + why;
  if (std::string why = text_of(replica, "submit_error"); !why.empty())
    line += "\n" + indented(why);
  return line;
}

void say_replica(Context& context, const Json& replica, Instant now, LastWords last_words) {
  std::string job = job_of(replica);
  std::string line =
      fmt::format("{}: {}", job == "-" ? "no job yet" : "job " + job, text_of(replica, "state"));
  if (std::string node = text_of(replica, "node"); !node.empty()) line += " on " + node;
  line += is_live(replica) ? live_line(replica, now) : ended_line(replica, now, last_words);
  context.out("  " + line + "\n");
}

// Those that live, then some that have ended, the newest first and with its engine's last words.
void say_replicas(Context& context, const Json& document, Instant now) {
  constexpr size_t kEnded = 5;
  std::vector<const Json*> ended;
  for (const Json& replica : list_of(document, "replicas"))
    if (is_live(replica))
      say_replica(context, replica, now, LastWords::left_out);
    else
      ended.push_back(&replica);
  std::stable_sort(ended.begin(), ended.end(), [](const Json* a, const Json* b) {
    return text_of(*a, "ended_at") > text_of(*b, "ended_at");
  });
  for (size_t i = 0; i < std::min(ended.size(), kEnded); ++i)
    say_replica(context, *ended[i], now, i == 0 ? LastWords::shown : LastWords::left_out);
  if (ended.size() > kEnded)
    context.out(fmt::format("  {} more have ended: `berth ps {} --all`\n", ended.size() - kEnded,
                            text_of(document, "name")));
}

// `of`: the replica that it is about, or "".
std::string event_line(const Json& event, const std::string& of) {
  std::string line = fmt::format("{}  {}", text_of(event, "at"), text_of(event, "kind"));
  if (!of.empty()) line += "  " + of;
  std::string text = first_line(text_of(event, "text"));
  if (!text.empty() && text != text_of(event, "kind")) line += "  " + text;
  return line;
}

void say_explanation(Context& context, const Json& document) {
  Instant now = context.now();
  std::string status = text_of(document, "status");
  context.out(fmt::format("{}: {}, {}/{} ready\n", text_of(document, "name"),
                          painted(status, colour_of(status), paint_for(context)),
                          number_of(document, "ready"), number_of(document, "wanted_replicas")));
  for (const Json& line : list_of(document, "explanation"))
    if (line.is_string()) context.out(harmless(line.get<std::string>()) + "\n");
  say_replicas(context, document, now);
  const Json& events = list_of(document, "events");
  if (!events.empty()) context.out("events, newest first:\n");
  for (const Json& event : events) context.out("  " + event_line(event, "") + "\n");
}

std::string logs_path(const std::string& name, const std::string& replica, int64_t offset) {
  std::string query = fmt::format("/logs?offset={}&limit=262144", offset);
  if (!replica.empty()) query += "&replica=" + percent_encode(replica);
  return service_path(name, query);
}

// The last `n` lines of a text.
std::string last_lines(const std::string& text, int64_t n) {
  if (n == 0) return "";
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (; n > 0; --n) {
    at = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    if (at == std::string::npos) return text;
  }
  return text.substr(at + 1);
}

// Keeps what --tail may still need: the end of what has been read.
void keep_end(std::string& held) {
  constexpr size_t kMost = size_t{4} << 20;
  if (held.size() > 2 * kMost) held.erase(0, held.size() - kMost);
}

}  // namespace

int run_ps(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0);
  Which which = arguments.has("--all") ? Which::all : Which::live;
  if (!name.empty()) {
    Answer answer = get(context, "ps " + name, service_path(name));
    if (!answer) return answer.status;
    if (arguments.has("--json")) return print_document(context, answer);
    Json service = answer.document();
    Table table = service_table();
    add_service(table, service, which);
    context.out(table.text(paint_for(context)));
    describe(context, service);
    return exit_ok;
  }
  Answer answer = get(context, "ps", "/berth/v1/services");
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  Json document = answer.document();
  const Json& services = list_of(document, "services");
  if (arguments.has("--names")) {
    for (const Json& service : services) context.out(text_of(service, "name") + "\n");
    return exit_ok;
  }
  Table table = service_table();
  for (const Json& service : services) add_service(table, service, which);
  if (table.empty())
    context.err("no services; `berth apply -f FILE` or `berth deploy NAME ...` declares one\n");
  else
    context.out(table.text(paint_for(context)));
  return exit_ok;
}

int run_explain(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0);
  std::string replica = arguments.value("--replica");
  if (arguments.has("--script")) {
    std::string query = replica.empty() ? "" : "?replica=" + percent_encode(replica);
    Answer answer = get(context, "explain " + name, service_path(name, "/script" + query));
    if (!answer || arguments.has("--json"))
      return answer ? print_document(context, answer) : answer.status;
    Json document = answer.document();
    std::string script = document.value("script", Json("")).is_string()
                             ? document.value("script", std::string())
                             : "";
    context.out(script);
    if (!script.ends_with('\n')) context.out("\n");
    return exit_ok;
  }
  Answer answer = get(context, "explain " + name, service_path(name, "/explain"));
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  say_explanation(context, answer.document());
  return exit_ok;
}

int run_events(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0);
  std::string limit = arguments.has("--tail") ? arguments.value("--tail") : "50", why;
  int64_t n = config::parse_integer(limit, why).value_or(0);
  if (n < 1 || n > 1000) return fail(context, "events: --tail must be 1 to 1000", exit_usage);
  Answer answer =
      get(context, "events " + name, service_path(name, fmt::format("/events?limit={}", n)));
  if (!answer) return answer.status;
  if (arguments.has("--json")) return print_document(context, answer);
  Json document = answer.document();
  const Json& events = list_of(document, "events");
  for (auto event = events.rbegin(); event != events.rend(); ++event)  // the newest last
    context.out(event_line(*event, text_of(*event, "replica")) + "\n");
  return exit_ok;
}

int run_logs(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0), replica = arguments.value("--replica");
  int64_t tail = -1;  // lines; -1: all
  if (arguments.has("--tail")) {
    std::string why;
    tail = config::parse_integer(arguments.value("--tail"), why).value_or(-1);
    if (tail < 0) return fail(context, "logs: --tail must be a number", exit_usage);
  }
  bool follow = arguments.has("--follow");
  std::string held;  // with --tail, until the end is reached for the first time
  for (int64_t offset = 0;;) {
    Answer answer = get(context, "logs " + name, logs_path(name, replica, offset));
    if (!answer) return answer.status;
    if (arguments.has("--json") && !follow) return print_document(context, answer);
    Json document = answer.document();
    auto text = document.find("text");
    std::string piece = text != document.end() && text->is_string() ? text->get<std::string>() : "";
    replica = text_of(document, "replica").empty() ? replica : text_of(document, "replica");
    int64_t next = number_of(document, "next_offset", offset);
    bool at_end = next <= offset;
    offset = std::max(offset, next);
    if (tail >= 0) {
      held += piece;
      keep_end(held);
      if (at_end) {
        context.out(last_lines(held, tail));
        tail = -1;
      }
    } else {
      context.out(piece);
    }
    if (!at_end) continue;
    if (!follow || document.value("ended", Json(false)) == Json(true)) return exit_ok;
    if (!context.sleep(seconds(1))) return exit_ok;
  }
}

}  // namespace berth::cli
