// A ServiceSpec as the API's document, and back.
//
// The document has the members of a service file; times are text ("30m", "90s"), memory is text in
// Slurm's units. Reading checks as much as reading a file does, by the same code; messages name
// the member ("spec: slurm.mem must be ..."), one a line. Written and read again, a valid spec is
// the same. Threading: pure.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "config/config.h"
#include "config/service_file.h"
#include "model/service.h"

namespace berth::config {

// Every member that says something.
Json to_json(const ServiceSpec& spec);
// Only the members that were written: what a client sends, so that the server's defaults hold.
Json to_json(const DeclaredService& service);

Result<ServiceSpec> parse_service_document(const Json& document,
                                           const ServiceDefaults& defaults = {});

// "96G", "512M": as parse_slurm_mem reads it.
std::string memory_text(int64_t mib);
// The shortest exact text that parse_duration reads back: "8h", "30m", "90s", "1500ms".
std::string duration_text(Duration d);

}  // namespace berth::config
