#include "model/service.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Service, EngineKindsRoundTrip) {
  for (EngineKind kind : {EngineKind::vllm, EngineKind::sglang, EngineKind::llama_server,
                          EngineKind::tei, EngineKind::command})
    EXPECT_EQ(parse_engine_kind(to_string(kind)), kind);
  EXPECT_EQ(parse_engine_kind("llama.cpp"), std::nullopt);
}

}  // namespace
}  // namespace berth
