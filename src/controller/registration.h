// Turns a registration's Authorization header into a Claim: who it surely is, and which job.
//
// Blocking parts (MUNGE, the scheduler, name resolution) run on the pool. The claim says what was
// verified; whether it suffices is Leases::admit's decision.
// Errors: unauthenticated with what to do; unavailable when the scheduler does not answer (the
// agent tries again).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "controller/leases.h"
#include "proto/control.h"
#include "route/route_table.h"
#include "runtime/blocking_pool.h"
#include "runtime/task.h"
#include "sched/sched.h"

namespace berth::controller {

// What a MUNGE credential proves.
struct MungeProof {
  uint32_t uid = 0;
  std::string payload;
};

struct RegistrationPorts {
  sched::Scheduler& scheduler;
  runtime::BlockingPool& pool;
  Clock clock;
  std::function<std::shared_ptr<const route::KeyTable>()> keys;
  // Blocking. Errors when the credential is bad, replayed or expired, or MUNGE is not there.
  std::function<Result<MungeProof>(const std::string& credential)> decode_munge;
  // The operators' names of a node on other networks, "{node}-ib"; what they resolve to here is
  // the node's, too. Never loopback, unless NodeAddr itself is.
  std::vector<std::string> node_names = {};
};

// `ports` outlives the task.
runtime::Task<Result<Claim>> verify_registration(const RegistrationPorts& ports,
                                                 std::string authorization, std::string body,
                                                 proto::RegisterRequest request);

}  // namespace berth::controller
