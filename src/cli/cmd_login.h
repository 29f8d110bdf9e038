// login: remembers an address and a key for this user, after trying them.
#pragma once

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

// The key comes from --key-file, from the terminal without echo, or from standard input; never
// from the command line, which others can see.
int run_login(Context& context, const Arguments& arguments);

}  // namespace berth::cli
