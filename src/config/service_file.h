// Service files: YAML text to ServiceSpecs, validated as a whole.
//
// A file holds one service, a list of services, or several documents of these. Everything that is
// wrong is reported at once: "file:line:column: message" a line, with what is allowed and the
// nearest name of an unknown member. Arguments and environment values are text exactly as written
// (1e3, no, 8:00:00 included); members may be written with - or _ between words.
//
// The same reader checks the API's documents (service_document.h), so that a file that passes
// here is not refused there for its form. Whether partitions, accounts or paths exist is not
// looked at. Errors: invalid_argument. Threading: pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config/yaml.h"
#include "model/service.h"

namespace berth::config {

struct DeclaredService {
  ServiceSpec spec;
  // The members that were written, by their names with _; the others hold defaults, and the
  // server's may differ from the client's.
  std::vector<std::string> given;
  Mark mark;
};

Result<std::vector<DeclaredService>> parse_service_file(std::string_view text,
                                                        std::string_view file_name,
                                                        const ServiceDefaults& defaults = {});

// One service from its tree; nullopt when something is wrong, which `problems` then says.
std::optional<DeclaredService> read_service(const YamlNode& node, const ServiceDefaults& defaults,
                                            Problems& problems);

std::string_view isolation_name(Isolation isolation);  // "auto", "unix-socket", ...

}  // namespace berth::config
