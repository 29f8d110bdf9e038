// `berth serve`: everything of one process, started, kept and stopped in order.
//
// Threads: the caller's becomes the control thread; one per shard; one for health and metrics; the
// control side's pool. Start: state, scheduler, shards bound, address written, then traffic. Stop
// (SIGTERM, SIGINT): the health check says so, shards finish what is in flight, the controller
// stops planning. Jobs go on; the next start adopts them. SIGHUP reads configuration and
// certificates again, for what does not need a restart, and opens the access log anew.
#pragma once

#include <functional>

#include "base/result.h"
#include "config/config.h"

namespace berth::app {

// `reload` reads the configuration again. The exit status: 0 after a stop by signal, 1 when it
// could not start (the reason is printed).
int run_serve(const config::Config& config, const std::function<Result<config::Config>()>& reload);

}  // namespace berth::app
