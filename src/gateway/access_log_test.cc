#include "gateway/access_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace berth::gateway {
namespace {

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(AccessLog, ALineIsOneJsonObject) {
  AccessRecord r;
  r.id = "abc";
  r.method = "POST";
  r.path = "/v1/\"x\"";
  r.status = 200;
  r.end = "whole";
  r.model = "own\ner/name";
  r.usage_source = "reported";
  r.prompt_tokens = 3;
  r.first_us = 0;
  std::string line;
  append_access_line(line, r);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  auto parsed = parse_json(line);
  ASSERT_TRUE(parsed.ok()) << line;
  EXPECT_NE(line.find("\"path\":\"/v1/\\\"x\\\"\""), line.npos) << line;
  EXPECT_NE(line.find("\"prompt_tokens\":3,\"completion_tokens\":0"), line.npos) << line;
  EXPECT_NE(line.find("\"first_us\":0"), line.npos);
  EXPECT_EQ(line.find("\"error\""), line.npos);
}

TEST(AccessLog, WritesEverythingAndFollowsRotation) {
  auto dir = std::filesystem::temp_directory_path() / ("berth-log-" + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  auto path = dir / "access.log", old = dir / "access.log.1";
  {
    auto log = std::move(AccessLog::open(path)).value();
    log->write("one\n");
    while (slurp(path) != "one\n") usleep(1000);
    std::filesystem::rename(path, old);
    log->reopen();
    while (!std::filesystem::exists(path)) usleep(1000);
    log->write("two\n");
    log->write("three\n");
  }
  EXPECT_EQ(slurp(old), "one\n");
  EXPECT_EQ(slurp(path), "two\nthree\n");
  std::filesystem::remove_all(dir);
  EXPECT_FALSE(AccessLog::open("/nonexistent/access.log").ok());
}

}  // namespace
}  // namespace berth::gateway
