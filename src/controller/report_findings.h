// What the controller's last plan says of the whole site, as findings for `berth doctor`.
//
// Pure. A site where all is well gives one finding that says so.
#pragma once

#include <vector>

#include "plan/report.h"
#include "sched/sched.h"

namespace berth::controller {

std::vector<sched::Finding> findings_of(const plan::Report& report, Instant now);

}  // namespace berth::controller
