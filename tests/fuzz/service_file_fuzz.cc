// Service files and configuration from hostile text: no crash, no hang, and what is accepted means
// the same after it went through the API's document.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "config/option.h"
#include "config/service_document.h"
#include "config/service_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto services = berth::config::parse_service_file(text, "f");
  if (services) {
    for (const auto& service : *services) {
      auto whole = berth::config::parse_service_document(berth::config::to_json(service.spec));
      if (!whole || !(*whole == service.spec)) std::abort();
      auto given = berth::config::parse_service_document(berth::config::to_json(service));
      if (!given || !(*given == service.spec)) std::abort();
    }
  } else if (services.error().message.empty()) {
    std::abort();
  }
  berth::config::ConfigInput input;
  input.file_name = "f";
  input.file_text = text;
  input.environment["HOME"] = "/home/x";
  auto config = berth::config::load_config(input);
  if (!config && config.error().message.empty()) std::abort();
  return 0;
}
