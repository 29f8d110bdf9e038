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

// Where it runs, or why it does not.
std::string place_of(const Json& replica) {
  std::string state = text_of(replica, "state");
  if (state == "ended") {
    std::string cause = text_of(replica, "end_cause");
    return fmt::format("({})", cause.empty() ? "ended" : cause);
  }
  std::string node = text_of(replica, "node");
  if (!node.empty()) return node;
  for (const char* member : {"submit_error", "reason"})
    if (std::string why = text_of(replica, member); !why.empty())
      return fmt::format("({})", why.substr(0, why.find('\n')).substr(0, 60));
  return "-";
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
      row({{job_of(lease)}, {state, colour_of(state)}, {"-"}, {text_of(lease, "node")}});
      any = true;
    }
  if (!any) row({{"-"}, {"-"}, {"-"}, {text_of(service, "status_text")}});
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
}

Table service_table() {
  return Table({"NAME", "STATUS", "READY", "JOBID", "STATE", "LEFT", "NODE (REASON)"});
}

void say_replica(Context& context, const Json& replica, Instant now) {
  std::string line = fmt::format("job {}: {}", job_of(replica), text_of(replica, "state"));
  if (std::string node = text_of(replica, "node"); !node.empty()) line += " on " + node;
  if (std::string reason = text_of(replica, "reason"); !reason.empty() && is_live(replica))
    line += ", reason " + reason;
  if (std::string start = relative(replica, "estimated_start", now); !start.empty())
    line += ", estimated start " + start;
  if (std::string rest = left(replica); rest != "-") line += ", " + rest + " left";
  if (std::string why = text_of(replica, "stopping"); !why.empty()) line += ", stopping: " + why;
  if (std::string why = text_of(replica, "submit_error"); !why.empty()) line += "\n    " + why;
  if (!is_live(replica)) {
    line +=
        fmt::format(" ({}) {}", text_of(replica, "end_cause"), relative(replica, "ended_at", now));
    if (std::string detail = text_of(replica, "end_detail"); !detail.empty())
      line += "\n    " + detail;
  }
  context.out("  " + line + "\n");
}

void say_texts(Context& context, const Json& document, std::string_view member) {
  auto it = document.find(member);
  if (it == document.end()) return;
  if (it->is_string()) context.out(harmless(it->get<std::string>()) + "\n");
  if (it->is_array())
    for (const Json& line : *it)
      if (line.is_string()) context.out(harmless(line.get<std::string>()) + "\n");
}

void say_explanation(Context& context, const Json& document) {
  Instant now = context.now();
  std::string status = text_of(document, "status");
  context.out(fmt::format("{}: {}, {}/{} ready\n", text_of(document, "name"),
                          painted(status, colour_of(status), paint_for(context)),
                          number_of(document, "ready"), number_of(document, "wanted_replicas")));
  say_texts(context, document, "status_text");
  say_texts(context, document, "explanation");
  if (std::string next = relative(document, "next_attempt_at", now); !next.empty())
    context.out("next start " + next + "\n");
  for (const Json& replica : list_of(document, "replicas")) say_replica(context, replica, now);
  const Json& events = list_of(document, "events");
  if (!events.empty()) context.out("events, newest first:\n");
  for (const Json& event : events)
    context.out(fmt::format("  {}  {}  {}\n", text_of(event, "at"), text_of(event, "kind"),
                            text_of(event, "text")));
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
