#include "model/service.h"

namespace berth {

std::string_view to_string(EngineKind kind) {
  switch (kind) {
    case EngineKind::vllm:
      return "vllm";
    case EngineKind::sglang:
      return "sglang";
    case EngineKind::llama_server:
      return "llama-server";
    case EngineKind::tei:
      return "tei";
    case EngineKind::command:
      return "command";
  }
  return "command";
}

std::optional<EngineKind> parse_engine_kind(std::string_view text) {
  for (EngineKind kind : {EngineKind::vllm, EngineKind::sglang, EngineKind::llama_server,
                          EngineKind::tei, EngineKind::command})
    if (to_string(kind) == text) return kind;
  return std::nullopt;
}

std::string_view to_string(ServiceStatus status) {
  switch (status) {
    case ServiceStatus::ready:
      return "ready";
    case ServiceStatus::degraded:
      return "degraded";
    case ServiceStatus::starting:
      return "starting";
    case ServiceStatus::waiting:
      return "waiting";
    case ServiceStatus::asleep:
      return "asleep";
    case ServiceStatus::failed:
      return "failed";
    case ServiceStatus::stopped:
      return "stopped";
  }
  return "failed";
}

}  // namespace berth
