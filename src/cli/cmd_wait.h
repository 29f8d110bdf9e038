// wait: until a service is ready or stopped.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

enum class WaitFor { ready, stopped };

// Looks once a second and says what changes on standard error. exit_ok once it is so; exit_failed
// when the service has failed (or is stopped while `ready` is awaited), after `limit`, after
// Ctrl-C, or when Berth has not answered for 30 s.
int wait_for(Context& context, const std::string& name, WaitFor state,
             std::optional<Duration> limit);

int run_wait(Context& context, const Arguments& arguments);

}  // namespace berth::cli
