#include "sched/job_script.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/command.h"

namespace berth::sched {
namespace {

// A folder with a stand-in for the berth binary and for srun, each of which writes down what it
// was given.
class JobScriptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/job-script-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    program("berth", "#!/bin/bash\nprintf '%s\\0' \"$@\" >" + folder_ + "/argv\nenv -0 >" +
                         folder_ + "/env\nexit ${AGENT_STATUS:-0}\n");
    script_.key = "berth-0123456789abcdef";
    script_.launcher = JobScript::Launcher::direct;
    script_.berth = folder_ + "/berth";
    script_.engine_argv = {"/opt/engine"};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void program(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    chmod((folder_ + "/" + name).c_str(), 0755);
  }

  runtime::CommandResult run() {
    auto text = render_job_script(script_);
    EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
    std::ofstream(folder_ + "/script") << *text;
    runtime::Command command;
    command.argv = {"/bin/bash", folder_ + "/script"};
    command.env = {"PATH=" + folder_ + ":/usr/bin:/bin", "HOME=/"};
    auto result = runtime::run_command(command);
    EXPECT_TRUE(result.ok());
    return *result;
  }

  std::vector<std::string> words(const std::string& name) {
    std::ifstream in(folder_ + "/" + name);
    std::vector<std::string> all;
    for (std::string word; std::getline(in, word, '\0');) all.push_back(word);
    return all;
  }

  std::string folder_;
  JobScript script_;
};

const std::vector<std::string> kHostile = {
    "",         "-x",         "--",       "a b",          "two\nlines", "'",      "\"",
    "a'b\"c",   "$(touch x)", "`id`",     "${HOME}",      "\\",         "\\n",    "!history",
    "*",        "~",          "#SBATCH",  "名前 ünïcode", "\r\n",       "\t",     "\x01\x7f",
    "\xff\xfe", "a;b&c|d>e",  "{a,b}",    "$'\\n'",       "%s",         "0,1",    "[x]",
    "(",        "trailing\n", "\n\nlead", "<<EOF",        "=",          "{port}", "\\\n"};

TEST_F(JobScriptTest, HostileArgumentsArriveExactly) {  // C21
  script_.engine_argv = kHostile;
  script_.agent_args = {"--token-file", "/tmp/a b'c", ""};
  auto result = run();
  EXPECT_EQ(result.exit_status, 0) << result.error_output;
  EXPECT_EQ(result.error_output, "");
  std::vector<std::string> expected = {"agent", "--token-file", "/tmp/a b'c", "", "--"};
  expected.insert(expected.end(), kHostile.begin(), kHostile.end());
  EXPECT_EQ(words("argv"), expected);
}

TEST_F(JobScriptTest, HostileVariablesArriveExactly) {  // C21
  script_.env = {
      {"CUDA_LIST", "0,1"}, {"T", "two words"}, {"E", ""}, {"Q", "a'b\"c"}, {"ML", "l1\nl2"}};
  for (size_t i = 0; i < kHostile.size(); ++i) script_.env["V" + std::to_string(i)] = kHostile[i];
  script_.setup = "true";
  EXPECT_EQ(run().exit_status, 0);
  std::vector<std::string> env = words("env");
  for (const auto& [name, value] : script_.env)
    EXPECT_NE(std::find(env.begin(), env.end(), name + "=" + value), env.end()) << name;
}

TEST_F(JobScriptTest, EveryByteSurvivesQuoting) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  script_.engine_argv = {"x", all, "9" + all + "1"};
  run();
  EXPECT_EQ(words("argv").at(3), all);
  EXPECT_EQ(words("argv").at(4), "9" + all + "1");
  for (const std::string& word : {all, std::string("a\r\nb")}) {
    EXPECT_EQ(shell_quote(word).find('\n'), std::string::npos);
    EXPECT_EQ(shell_quote(word).find('\r'), std::string::npos);  // sbatch refuses CR LF
  }
}

TEST_F(JobScriptTest, EndsWithTheAgentsStatus) {
  for (int status : {0, 3, 75, 127}) {
    script_.env["AGENT_STATUS"] = std::to_string(status);
    EXPECT_EQ(run().exit_status, status);
  }
}

TEST_F(JobScriptTest, SetupFromAWebForm) {  // C19
  script_.setup =
      "\xef\xbb\xbf\r\n#SBATCH --partition=secret\r\nexport FROM_SETUP='it''s'\r\n"
      "if true; then\r\n  export MORE=\"a  b\"\r\nfi";
  auto text = render_job_script(script_);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->find('\r'), std::string::npos);
  EXPECT_EQ(text->find("\xef\xbb\xbf"), std::string::npos);
  // Slurm reads options only above the first command.
  EXPECT_LT(text->find("\ntrap "), text->find("#SBATCH --partition"));
  EXPECT_EQ(run().exit_status, 0);
  std::vector<std::string> env = words("env");
  EXPECT_NE(std::find(env.begin(), env.end(), "FROM_SETUP=its"), env.end());
  EXPECT_NE(std::find(env.begin(), env.end(), "MORE=a  b"), env.end());
}

TEST_F(JobScriptTest, FailingSetupSaysSo) {
  const std::pair<const char*, const char*> table[] = {
      {"true\nfalse\ntouch later", "setup failed with status 1 at: false"},
      {"module load cuda", "setup failed with status 127 at: module load cuda"},
      {"exit 5", "setup failed with status 5"},
      {"exit 0", "setup failed with status 0"},
      {"if then", "setup failed with status"},
      {"echo 'unbalanced", "setup failed with status"},
      {"fi; }", "setup failed with status"},
      {"set -u; echo $NOT_SET_AT_ALL", "setup failed with status"},
      {". /nonexistent/activate", "setup failed with status 1"},
  };
  for (const auto& [setup, expected] : table) {
    script_.setup = setup;
    auto result = run();
    EXPECT_EQ(result.exit_status, kSetupFailed) << setup << "\n" << result.error_output;
    EXPECT_NE(result.error_output.find(std::string("berth: ") + expected), std::string::npos)
        << setup << "\n"
        << result.error_output;
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/argv")) << setup;
  }
  EXPECT_FALSE(std::filesystem::exists("/later"));
}

TEST_F(JobScriptTest, SetupMayChooseAndStaysInItsPlace) {
  for (const char* setup : {"set +e\nfalse", "set -u", "trap 'exit 9' TERM", "IFS=/",
                            "BERTH_SETUP_ENDS\n", "cat <<X\nBERTH_SETUP_ENDS\nX", "set -f",
                            "f() { return 3; }; f || true", "# just a comment", "\n\n"}) {
    std::filesystem::remove(folder_ + "/argv");
    script_.setup = setup;
    if (std::string_view(setup) == "BERTH_SETUP_ENDS\n") script_.setup = "set +e\n" + script_.setup;
    auto result = run();
    EXPECT_EQ(result.exit_status, 0) << setup << "\n" << result.error_output;
    EXPECT_EQ(words("argv"), std::vector<std::string>({"agent", "--", "/opt/engine"})) << setup;
  }
}

TEST_F(JobScriptTest, MissingPrograms) {
  script_.berth = folder_ + "/nowhere/berth";
  auto result = run();
  EXPECT_EQ(result.exit_status, kAgentMissing);
  EXPECT_NE(result.error_output.find("no executable " + script_.berth), std::string::npos);
  script_.berth = folder_ + "/berth";
  script_.launcher = JobScript::Launcher::srun;
  auto text = render_job_script(script_);
  runtime::Command command;
  command.argv = {"/bin/bash", "-c", *text};
  command.env = {"PATH=/nowhere"};
  EXPECT_EQ(runtime::run_command(command)->exit_status, kAgentMissing);
}

TEST_F(JobScriptTest, SrunGetsItsCpusAndTheArguments) {  // A27
  program("srun", "#!/bin/bash\nprintf '%s\\0' \"$@\" >" + folder_ + "/srun-argv\n" + "env -0 >" +
                      folder_ + "/srun-env\nexit 7\n");
  script_.launcher = JobScript::Launcher::srun;
  script_.cpus = 16;
  script_.env = {{"PATH", "/nowhere"}};
  script_.setup = "export SRUN_NTASKS=1";
  EXPECT_EQ(run().exit_status, 7);
  EXPECT_EQ(words("srun-argv"), std::vector<std::string>(
                                    {"--nodes=1", "--ntasks=1", "--cpus-per-task=16", "--mpi=none",
                                     "--export=ALL", script_.berth, "agent", "--", "/opt/engine"}));
}

// The scheduler signals the script as well as the agent; the script has to wait for the agent.
TEST_F(JobScriptTest, OutlivesTheSignalsOfTheScheduler) {
  program("berth",
          "#!/bin/bash\ntrap : HUP INT TERM USR1 USR2\nfor s in HUP INT TERM USR1 USR2; do "
          "kill -$s $PPID; done\nexit 42\n");
  auto result = run();
  EXPECT_EQ(result.exit_status, 42) << result.error_output;
  EXPECT_FALSE(result.signal);
}

TEST_F(JobScriptTest, AStopDuringSetupStartsNoEngine) {
  script_.setup = "kill -USR1 $$";
  EXPECT_EQ(run().exit_status, 0);
  script_.setup = "kill -TERM $$";
  auto result = run();
  EXPECT_EQ(result.exit_status, 20);
  EXPECT_NE(result.error_output.find("before the engine was started"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/argv"));
}

TEST(JobScript, RefusesWhatItCannotPassOn) {
  JobScript good;
  good.key = "berth-1";
  good.berth = "/b";
  good.engine_argv = {"x"};
  ASSERT_TRUE(render_job_script(good).ok());
  auto refused = [&good](auto change) {
    JobScript script = good;
    change(script);
    auto text = render_job_script(script);
    return !text.ok() && text.error().code == Code::invalid_argument;
  };
  std::string nul("a\0b", 3);
  EXPECT_TRUE(refused([&](JobScript& s) { s.engine_argv = {nul}; }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.agent_args = {nul}; }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.engine_argv.clear(); }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.env = {{"A", nul}}; }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.setup = nul; }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.berth = "berth"; }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.cpus = 0; }));
  EXPECT_TRUE(refused([&](JobScript& s) { s.key = "a\nrm -rf /"; }));
  for (const char* name : {"", "1A", "A-B", "A B", "A=B", "A\nB", "UID", "SHELLOPTS", "_", "IFS",
                           "SLURM_CONF", "SBATCH_QOS", "SRUN_X", "berth_bin", "BASH_FUNC_x"})
    EXPECT_TRUE(refused([&](JobScript& s) { s.env = {{name, "v"}}; })) << name;
}

TEST(JobScript, WholeText) {
  JobScript script;
  script.key = "berth-0123456789abcdef";
  script.launcher = JobScript::Launcher::srun;
  script.cpus = 16;
  script.berth = "/shared/berth/bin/berth";
  script.agent_args = {"--service", "qwen3-coder-30b", "--token-file", "/home/a b/token"};
  script.engine_argv = {"vllm", "serve", "/models/Qwen3", "--uds", "{uds}", "--name", "it's"};
  script.env = {{"CUDA_LIST", "0,1"}, {"ML", "l1\nl2"}};
  script.setup = "module load cuda\r\n";
  auto text = render_job_script(script);
  ASSERT_TRUE(text.ok());
  std::ifstream in(BERTH_SOURCE_DIR "/tests/golden/job_script.sh");
  std::stringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(*text, golden.str());
}

}  // namespace
}  // namespace berth::sched
