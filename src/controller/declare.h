// Declaring a service: who may, under which public name, and what changes by it. Pure.
//
// The public name is the bare name for operators and for holders of a grant, else "user/name".
// The payer is the spec's account, else the wished project, else the caller's; only operators
// declare for a project that is not theirs.
// A change of what runs (engine, model, args, resources, ...) raises the generation, and replicas
// follow; a change of replicas or access alone does not restart anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "controller/state.h"
#include "model/service.h"
#include "route/route_table.h"

namespace berth::controller {

// Whether operators of this site let services put their engine on a loopback port, which every
// user of the node can reach.
enum class LoopbackPolicy { refused, allowed };

// One leaf of the document that differs, by its path ("slurm.gpus"); the values as JSON text.
struct FieldChange {
  std::string path;
  std::string from;
  std::string to;

  bool operator==(const FieldChange&) const = default;
};

struct Declaration {
  enum class Action { create, update, none };
  Action action = Action::none;
  ServiceRecord record;  // as it would be stored
  std::vector<FieldChange> changes;
  std::vector<std::string> effects;  // for people, what would happen
};

Result<Declaration> declare(const State& state, const route::Caller& caller,
                            const std::string& project, ServiceSpec spec, LoopbackPolicy loopback,
                            Instant now);

std::vector<FieldChange> document_changes(const Json& from, const Json& to);

}  // namespace berth::controller
