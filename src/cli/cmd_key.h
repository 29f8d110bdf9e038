// key and grant: who may call, and who may use a bare name.
//
// `key create` prints the key alone on standard output, once; nothing else ever prints a key.
#pragma once

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

int run_key_create(Context& context, const Arguments& arguments);
int run_key_list(Context& context, const Arguments& arguments);
int run_key_revoke(Context& context, const Arguments& arguments);
int run_grant_add(Context& context, const Arguments& arguments);
int run_grant_list(Context& context, const Arguments& arguments);
int run_grant_rm(Context& context, const Arguments& arguments);

}  // namespace berth::cli
