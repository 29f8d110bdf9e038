#include "gateway/inference_route.h"

#include <gtest/gtest.h>

namespace berth::gateway {
namespace {

TEST(InferenceRoute, OnlyWhatIsListedIsOpen) {
  EXPECT_EQ(match_path("/v1/chat/completions").kind, PathKind::inference);
  EXPECT_TRUE(match_path("/v1/chat/completions").route->takes_stream_options);
  EXPECT_FALSE(match_path("/v1/messages").route->takes_stream_options);
  EXPECT_TRUE(match_path("/v1/audio/transcriptions").route->is_audio);
  EXPECT_EQ(match_path("/v1/models").kind, PathKind::model_list);
  EXPECT_EQ(match_path("/v1/models/a/b").rest, "a/b");
  EXPECT_EQ(match_path("/berth/v1/services").kind, PathKind::control);
  // Routes of engines that would let a user steer or read the engine.
  for (const char* closed :
       {"/", "/metrics", "/health", "/v1/load_lora_adapter", "/collective_rpc", "/sleep", "/props",
        "/slots", "/pause", "/update_weights", "/v1/chat/completions/", "/V1/chat/completions",
        "//v1/chat/completions", "/v1/../metrics", "/berth/v10", "/invocations"})
    EXPECT_EQ(match_path(closed).kind, PathKind::unknown) << closed;
}

}  // namespace
}  // namespace berth::gateway
