// The command line as a program: the real terminal, files, clock and API behind the commands.
//
// main() registers the roles (commands.h: set_role) and returns run_program(argc, argv). For
// roles nothing is set up but the arguments: no thread, no signal handler, no connection.
#pragma once

namespace berth::cli {

int run_program(int argc, const char* const* argv);

}  // namespace berth::cli
