#include "proto/model_names.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace berth::proto {
namespace {

using Names = std::vector<std::string>;

// B19
TEST(ModelIdFromPath, ResolvesEscapesOnce) {
  const std::string id = "hf.co/org/My-Model:Q4_K_M";
  EXPECT_EQ(model_id_from_path("hf.co/org/My-Model:Q4_K_M"), id);
  EXPECT_EQ(model_id_from_path("hf.co%2Forg%2FMy-Model:Q4_K_M"), id);
  EXPECT_EQ(model_id_from_path("hf.co%2forg%2fMy-Model%3AQ4_K_M?x=1"), id);
  EXPECT_EQ(model_id_from_path("hf.co%252Forg%252FMy-Model:Q4_K_M"),
            "hf.co%2Forg%2FMy-Model:Q4_K_M");
  EXPECT_EQ(model_id_from_path("a+b%20c"), "a+b c");
  EXPECT_EQ(model_id_from_path("%E4%B8%AD"), "\xe4\xb8\xad");
  for (std::string_view bad : {"", "?x", "a%", "a%2", "a%zz", "a%00b", "a%0Ab", "%ff", "%C0%80"})
    EXPECT_EQ(model_id_from_path(bad), std::nullopt) << bad;
}

TEST(ModelList, IsValidJsonWithOptionalFieldsLeftOut) {
  ModelEntry ready{"owner/\"m\"", 1730000000, "gaia", "ready", 65536, ""};
  ModelEntry waiting{"w", 5, "bob", "waiting", 0, "in the queue"};
  const ModelEntry entries[] = {ready, waiting};
  nlohmann::json list = nlohmann::json::parse(model_list_body(entries));
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0], nlohmann::json::parse(model_body(ready)));
  EXPECT_EQ(list["data"][0]["id"], "owner/\"m\"");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["context_length"], 65536);
  EXPECT_EQ(list["data"][0]["max_model_len"], 65536);
  EXPECT_FALSE(list["data"][0].contains("note"));
  EXPECT_FALSE(list["data"][1].contains("context_length"));
  EXPECT_EQ(list["data"][1]["note"], "in the queue");
  EXPECT_EQ(nlohmann::json::parse(model_list_body({}))["data"].size(), 0u);
}

TEST(UnknownModelMessage, NamesWhatMayHaveBeenMeant) {
  EXPECT_EQ(unknown_model_message("x", Names{}),
            "The model `x` does not exist or you may not use it.");
  EXPECT_EQ(unknown_model_message("x", Names{"y"}),
            "The model `x` does not exist or you may not use it. Did you mean `y`?");
  EXPECT_EQ(unknown_model_message("x", Names{"a", "b", "c"}),
            "The model `x` does not exist or you may not use it. Did you mean `a`, `b` or `c`?");
  EXPECT_LT(unknown_model_message(std::string(9999, 'x'), Names{}).size(), 300u);
}

}  // namespace
}  // namespace berth::proto
