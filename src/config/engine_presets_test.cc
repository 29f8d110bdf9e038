#include "config/engine_presets.h"

#include <gtest/gtest.h>

namespace berth::config {
namespace {

TEST(EnginePresets, PresetsAreCompleteAndPoolsAreShorterThanKeepAlive) {
  for (EngineKind kind : {EngineKind::vllm, EngineKind::sglang, EngineKind::llama_server,
                          EngineKind::tei, EngineKind::command}) {
    const EnginePreset& p = preset(kind);
    EXPECT_EQ(p.kind, kind);
    EXPECT_FALSE(p.source.empty());
    EXPECT_FALSE(p.version.empty());
    EXPECT_FALSE(p.routes.empty());
    EXPECT_FALSE(p.probes.empty());
    if (p.keep_alive) {
      EXPECT_LT(p.pool_idle, *p.keep_alive);
    }
    for (const EngineRoute& route : p.routes) {
      EXPECT_TRUE(route.path.starts_with('/'));
      for (std::string_view closed : {"/metrics", "/sleep", "/slots", "/props", "/invocations"})
        EXPECT_NE(route.path, closed);
    }
  }
}

}  // namespace
}  // namespace berth::config
