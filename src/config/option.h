// The daemon's options: one declaration each, from which come parsing, `berth config check`,
// `berth config show` and docs/ref/config.md.
//
// The file is YAML; members nest as the dots of a name say ("gateway.body_limit"). A value comes
// from the command line, else from the environment (BERTH_ and the name in capitals with _ for
// the dots), else from the file, else from the default here. Everything that is wrong is reported
// at once, with file, line and column.
// Threading: constant data and pure functions; the caller reads the file and the environment.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config/option_table.h"

namespace berth::config {

enum class Origin { fallback, file, environment, command_line };

struct Setting {
  std::string name;
  std::string value;  // as written
  Origin origin = Origin::fallback;
  std::string place;  // "default", "berth.yaml:12", "environment BERTH_LISTEN", "command line"
};

struct ConfigInput {
  std::string file_name;  // for messages; empty: no file
  std::string file_text;
  std::map<std::string, std::string> environment;
  std::vector<std::pair<std::string, std::string>> command_line;  // option name, value
};

struct LoadedConfig {
  Config config;
  std::vector<Setting> settings;  // every option, in the order of options()
};

// The error's message has one line per problem.
Result<LoadedConfig> load_config(const ConfigInput& input);

// Names of the options that differ and take effect only after a restart.
std::vector<std::string> needing_restart(const LoadedConfig& before, const LoadedConfig& after);

// docs/ref/config.md.
std::string config_reference();

// "name: value  # place", one a line, for people.
std::string show_config(const LoadedConfig& loaded);

}  // namespace berth::config
