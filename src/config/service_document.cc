#include "config/service_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace berth::config {
namespace {

// The document as a tree of text, so that one reader serves files and API.
YamlNode tree_of(const Json& value) {
  YamlNode node;
  if (value.is_null()) return node;
  if (value.is_array()) {
    node.kind = YamlNode::Kind::list;
    for (const Json& item : value) node.items.push_back(tree_of(item));
  } else if (value.is_object()) {
    node.kind = YamlNode::Kind::map;
    for (const auto& [name, member] : value.items()) {
      YamlNode key;
      key.kind = YamlNode::Kind::scalar;
      key.text = name;
      node.members.push_back({std::move(key), tree_of(member)});
    }
  } else {
    node.kind = YamlNode::Kind::scalar;
    node.quoted = value.is_string();
    node.text = value.is_string() ? value.get<std::string>() : dump_json(value);
  }
  return node;
}

Json slurm_json(const ResourceSpec& r) {
  Json out = Json::object();
  auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) out[name] = value;
  };
  text("partition", r.partition);
  text("account", r.account);
  text("qos", r.qos);
  text("reservation", r.reservation);
  text("constraint", r.constraint);
  text("gpu-type", r.gpu_type);
  if (r.gpus != 0) out["gpus"] = r.gpus;
  if (r.nodes != 1) out["nodes"] = r.nodes;
  if (r.cpus_per_task != 1) out["cpus-per-task"] = r.cpus_per_task;
  if (r.mem_mib) out["mem"] = memory_text(*r.mem_mib);
  if (r.time_limit) out["time"] = duration_text(*r.time_limit);
  if (!r.exclude_nodes.empty()) out["exclude"] = r.exclude_nodes;
  return out;
}

Json access_json(const AccessSpec& a) {
  Json out = Json::object();
  if (a.scope == AccessSpec::Scope::everybody) out["public"] = true;
  if (!a.projects.empty()) out["projects"] = a.projects;
  if (!a.users.empty()) out["users"] = a.users;
  if (!a.groups.empty()) out["groups"] = a.groups;
  return out;
}

}  // namespace

std::string memory_text(int64_t mib) {
  return mib > 0 && mib % 1024 == 0 ? fmt::format("{}G", mib / 1024) : fmt::format("{}M", mib);
}

std::string duration_text(Duration d) {
  int64_t ms = d.count();
  if (ms % 1000 != 0) return fmt::format("{}ms", ms);
  int64_t s = ms / 1000;
  if (s == 0 || s % 60 != 0) return fmt::format("{}s", s);
  if (s % 3600 != 0) return fmt::format("{}m", s / 60);
  return fmt::format("{}h", s / 3600);
}

Json to_json(const ServiceSpec& spec) {
  Json out = {{"name", spec.name}, {"engine", to_string(spec.engine)}};
  auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) out[name] = value;
  };
  text("model", spec.model);
  text("served_model_name", spec.served_model_name);
  text("setup", spec.setup);
  text("log_dir", spec.log_dir);
  if (!spec.args.empty()) out["args"] = spec.args;
  if (!spec.command.empty()) out["command"] = spec.command;
  if (!spec.env.empty()) out["env"] = spec.env;
  if (Json slurm = slurm_json(spec.resources); !slurm.empty()) out["slurm"] = std::move(slurm);
  if (Json access = access_json(spec.access); !access.empty()) out["access"] = std::move(access);
  out["replicas"] = spec.replicas;
  out["isolation"] = isolation_name(spec.isolation);
  out["load_timeout"] = duration_text(spec.load_timeout);
  out["drain_grace"] = duration_text(spec.drain_grace);
  out["max_start_attempts"] = spec.max_start_attempts;
  return out;
}

Json to_json(const DeclaredService& service) {
  Json all = to_json(service.spec);
  Json out = Json::object();
  for (const auto& [name, value] : all.items()) {
    bool given = std::find(service.given.begin(), service.given.end(), name) != service.given.end();
    if (given || name == "name" || name == "engine") out[name] = value;
  }
  return out;
}

Result<ServiceSpec> parse_service_document(const Json& document, const ServiceDefaults& defaults) {
  Problems problems("spec");
  auto service = read_service(tree_of(document), defaults, problems);
  if (!service) return invalid_argument(problems.to_text());
  return std::move(service->spec);
}

}  // namespace berth::config
