#include "agent/hook_output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace berth::agent {
namespace {

std::string drain(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  return text;
}

TEST(EngineOutput, PassesEveryByteAndKeepsTheLastLines) {
  int out[2], err[2];
  ASSERT_EQ(pipe(out), 0);
  ASSERT_EQ(pipe(err), 0);
  auto output = EngineOutput::open(out[1], err[1]);
  ASSERT_TRUE(output) << output.error().message;
  std::string big;
  for (int i = 0; i < 50'000; ++i) big += "line " + std::to_string(i) + "\n";
  std::string got_out, got_err;
  std::thread read_out([&] { got_out = drain(out[0]); });
  std::thread read_err([&] { got_err = drain(err[0]); });
  for (size_t at = 0; at < big.size();) {
    ssize_t n = write((*output)->engine_out(), big.data() + at, big.size() - at);
    ASSERT_GT(n, 0);
    at += n;
  }
  const std::string words = "\x1b[31mTraceback\x1b[0m\nCUDA out of memory\n";
  ASSERT_EQ(write((*output)->engine_err(), words.data(), words.size()),
            static_cast<ssize_t>(words.size()));
  (*output)->close_engine_ends();
  EXPECT_TRUE((*output)->wait_for_end(seconds(10)));
  EXPECT_EQ((*output)->tail(EngineOutput::Stage::loading), "Traceback\nCUDA out of memory");
  output->reset();
  close(out[1]);
  close(err[1]);
  read_out.join();
  read_err.join();
  EXPECT_EQ(got_out, big);
  EXPECT_EQ(got_err, words);
  close(out[0]);
  close(err[0]);
}

TEST(EngineOutput, StandardOutputIsTheTailOfAnEngineThatIsSilentOnError) {
  int null_out[2];
  ASSERT_EQ(pipe(null_out), 0);
  auto output = EngineOutput::open(null_out[1], null_out[1]);
  ASSERT_TRUE(output);
  ASSERT_EQ(write((*output)->engine_out(), "no such file\n", 13), 13);
  (*output)->close_engine_ends();
  EXPECT_TRUE((*output)->wait_for_end(seconds(10)));
  EXPECT_EQ((*output)->tail(EngineOutput::Stage::serving), "no such file");
  output->reset();
  close(null_out[0]);
  close(null_out[1]);
}

TEST(EngineOutput, DoesNotWaitForAProcessThatKeepsThePipe) {
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  auto output = EngineOutput::open(out[1], out[1]);
  ASSERT_TRUE(output);
  int kept = dup((*output)->engine_out());
  (*output)->close_engine_ends();
  EXPECT_FALSE((*output)->wait_for_end(Duration(20)));
  output->reset();  // ends although `kept` is open
  close(kept);
  close(out[0]);
  close(out[1]);
}

TEST(EngineOutput, LastLinesAreWholeAndClean) {
  EXPECT_EQ(last_lines("one\ntwo\nthree\n", 9), "three");
  EXPECT_EQ(last_lines("one\ntwo\nthree\n", 10), "two\nthree");
  EXPECT_EQ(last_lines("a\r\nb\x01\x7f\n\n", 100), "a\nb");
  EXPECT_EQ(last_lines("", 10), "");
  EXPECT_EQ(last_lines(std::string(50, 'x'), 10), std::string(10, 'x'));
}

}  // namespace
}  // namespace berth::agent
