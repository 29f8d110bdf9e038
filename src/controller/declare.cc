#include "controller/declare.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "config/service_document.h"
#include "model/names.h"

namespace berth::controller {
namespace {

bool may_operate(const route::Caller& caller) {
  return caller.role == route::Caller::Role::operator_;
}

Error not_allowed(std::string message) {
  return Error{Code::permission_denied, std::move(message), Source::caller, Retry::no};
}

Result<std::string> choose_name(const State& state, const route::Caller& caller,
                                const std::string& project, std::string& name) {
  std::string prefix = caller.user + "/";
  bool prefixed = name.starts_with(prefix);
  if (prefixed) name.erase(0, prefix.size());
  if (auto s = check_service_name(name); !s) return std::move(s).error();
  if (prefixed) return prefix + name;
  if (may_operate(caller)) return name;
  const auto& grants = state.snapshot().grants;
  auto it = grants.find(name);
  bool granted = it != grants.end() &&
                 (it->second.holder == caller.user || it->second.holder == "project:" + project);
  return granted ? name : prefix + name;
}

Result<std::string> choose_project(const route::Caller& caller, const std::string& wished,
                                   const ServiceSpec& spec) {
  std::string project = !spec.resources.account.empty() ? spec.resources.account
                        : !wished.empty()               ? wished
                                                        : caller.project;
  if (!project.empty())
    if (auto s = check_account_name("project", project); !s) return std::move(s).error();
  if (!may_operate(caller) && project != caller.project)
    return not_allowed("project \"" + project + "\" is not the one your key is for (\"" +
                       caller.project + "\"); use a key of that project");
  return project;
}

// Whether replicas must be replaced to follow the new spec.
bool needs_new_replicas(ServiceSpec from, ServiceSpec to) {
  for (ServiceSpec* s : {&from, &to}) {
    s->replicas = 0;
    s->access = {};
    s->max_start_attempts = 0;
    s->drain_grace = {};
  }
  return !(from == to);
}

std::string where(const ServiceRecord& service) {
  return service.spec.resources.partition.empty() ? "the default partition"
                                                  : "partition " + service.spec.resources.partition;
}

// What one job asks the scheduler for, as one would say it.
std::string asked_for(const ServiceRecord& service) {
  const ResourceSpec& r = service.spec.resources;
  std::vector<std::string> words;
  if (!service.project.empty()) words.push_back("account " + service.project);
  if (!r.qos.empty()) words.push_back("qos " + r.qos);
  if (r.gpus > 0)
    words.push_back(std::to_string(r.gpus) + (r.gpu_type.empty() ? "" : " " + r.gpu_type) +
                    (r.gpus == 1 ? " GPU" : " GPUs"));
  words.push_back(std::to_string(r.cpus_per_task) +
                  (r.cpus_per_task == 1 ? " processor" : " processors"));
  words.push_back(r.mem_mib ? config::memory_text(*r.mem_mib) + " memory"
                            : "the partition's memory");
  words.push_back(r.time_limit ? "for " + config::duration_text(*r.time_limit)
                               : "for the partition's default time");
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string jobs(int n) { return std::to_string(n) + (n == 1 ? " job" : " jobs"); }

void describe_effects(const ServiceRecord* old, Declaration& d) {
  const ServiceRecord& now = d.record;
  int from = old && old->wanted == ServiceRecord::Wanted::running ? old->spec.replicas : 0;
  int to = now.wanted == ServiceRecord::Wanted::running ? now.spec.replicas : 0;
  bool replace = old && old->generation != now.generation && std::min(from, to) > 0;
  if (replace)
    d.effects.push_back("replace " + jobs(std::min(from, to)) + " in " + where(now) +
                        ", one at a time, each old one after its successor is ready");
  if (to > from)
    d.effects.push_back("submit " + jobs(to - from) + " to " + where(now) + ": " + asked_for(now));
  if (to < from) d.effects.push_back("drain and stop " + jobs(from - to));
  if (d.effects.empty()) d.effects.push_back("submit and stop no job");
}

void flatten(const Json& document, const std::string& path,
             std::map<std::string, const Json*>& out) {
  if (document.is_object() && (path.empty() || !document.empty())) {
    for (const auto& [name, value] : document.items())
      flatten(value, path.empty() ? name : path + "." + name, out);
  } else {
    out[path] = &document;
  }
}

}  // namespace

std::vector<FieldChange> document_changes(const Json& from, const Json& to) {
  std::map<std::string, const Json*> a, b;
  flatten(from, "", a);
  flatten(to, "", b);
  std::set<std::string> paths;
  for (const auto& [path, value] : a) paths.insert(path);
  for (const auto& [path, value] : b) paths.insert(path);
  std::vector<FieldChange> changes;
  for (const std::string& path : paths) {
    auto x = a.find(path), y = b.find(path);
    Json before = x == a.end() ? Json(nullptr) : *x->second;
    Json after = y == b.end() ? Json(nullptr) : *y->second;
    if (before != after) changes.push_back({path, dump_json(before), dump_json(after)});
  }
  return changes;
}

Result<Declaration> declare(const State& state, const route::Caller& caller,
                            const std::string& project, ServiceSpec spec, LoopbackPolicy loopback,
                            Instant now) {
  if (spec.isolation == Isolation::loopback && loopback == LoopbackPolicy::refused)
    return not_allowed(
        "isolation: loopback would let every user of the node reach the engine; it needs "
        "isolation.allow_loopback in the site's configuration. Use auto, or network-namespace");
  auto payer = choose_project(caller, project, spec);
  if (!payer) return std::move(payer).error();
  auto name = choose_name(state, caller, *payer, spec.name);
  if (!name) return std::move(name).error();

  Declaration d;
  const auto& services = state.snapshot().services;
  auto it = services.find(*name);
  const ServiceRecord* old = it == services.end() ? nullptr : &it->second;
  if (old && old->owner != caller.user && !may_operate(caller))
    return not_allowed("service \"" + *name + "\" belongs to " + old->owner);
  if (old && old->wanted == ServiceRecord::Wanted::removed)
    return Error{Code::conflict,
                 "service \"" + *name +
                     "\" is being removed; its jobs are still ending, try again "
                     "when `berth ps` no longer shows it",
                 Source::berth, Retry::yes};
  for (const auto& [id, lease] : state.snapshot().leases)
    if (!old && lease.public_name == *name)
      return Error{Code::conflict,
                   "\"" + *name + "\" is served by a self-registered replica of " + lease.owner +
                       " (job " + std::to_string(lease.job.id) + "); end that job first",
                   Source::caller, Retry::no};
  if (old) {
    d.record = *old;
  } else {
    d.record.owner = caller.user;
    d.record.public_name = *name;
    d.record.created_at = now;
  }
  bool moved = old && old->project != *payer;
  d.record.project = *payer;
  d.record.spec = std::move(spec);
  d.record.updated_at = now;
  d.record.resumed_at = now;
  Json before = old ? config::to_json(old->spec) : Json::object();
  if (old) before["project"] = old->project;
  Json after = config::to_json(d.record.spec);
  after["project"] = d.record.project;
  d.changes = document_changes(before, after);
  if (!old)
    d.action = Declaration::Action::create;
  else if (!d.changes.empty())
    d.action = Declaration::Action::update;
  if (old && (moved || needs_new_replicas(old->spec, d.record.spec))) d.record.generation++;
  if (d.action == Declaration::Action::none) {
    d.record = *old;
    d.effects.push_back("change nothing");
  } else {
    describe_effects(old, d);
  }
  return d;
}

}  // namespace berth::controller
