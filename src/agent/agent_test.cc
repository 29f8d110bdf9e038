#include "agent/agent.h"

#include "agent/agent_rig.h"

namespace berth::agent {
namespace {

using ::testing::HasSubstr;

TEST_F(AgentTest, SaysWhatIsWrongBeforeAnythingStarts) {
  options.engine_argv = {"python3", kEngine};
  start();
  EXPECT_EQ(exit_status(), lifecycle::kExitUsage);
  EXPECT_THAT(read("agent.log"), HasSubstr("{port}"));
  options.engine_argv = {"srun", "python3", kEngine, "--port", "{port}"};
  start();
  EXPECT_EQ(exit_status(), lifecycle::kExitUsage);
  EXPECT_THAT(read("agent.log"), HasSubstr("srun cannot work inside"));
  options.engine_argv = {"no-such-engine", "{uds}"};
  start();
  EXPECT_EQ(exit_status(), lifecycle::kExitFault);
  EXPECT_THAT(read("agent.log"), HasSubstr("\"no-such-engine\" is not in PATH"));
}

}  // namespace
}  // namespace berth::agent
