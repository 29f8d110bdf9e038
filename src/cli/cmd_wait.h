// wait: until a service is ready, stopped or gone.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

enum class WaitFor {
  ready,    // with all its replicas of the newest generation; none of before serves any more
  stopped,  // and its jobs have ended
  gone,     // removed: there is no such service (any more)
};

// Looks once a second and says what changes on standard error. exit_ok once it is so; exit_failed
// when the service has failed (or is stopped while `ready` is awaited) or was never there, after
// `limit`, after Ctrl-C, or when Berth has not answered for 30 s.
// `end`: whether the service's document is then printed as it came.
enum class AtTheEnd { say_nothing, print_document };
int wait_for(Context& context, const std::string& name, WaitFor state,
             std::optional<Duration> limit, AtTheEnd end = AtTheEnd::say_nothing);

int run_wait(Context& context, const Arguments& arguments);

}  // namespace berth::cli
