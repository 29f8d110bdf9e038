// The hop that every replica of the product has: the agent's front, before an engine.
//   bench_agent_front LISTEN_PORT ENGINE_PORT SECRET
#include <cstdio>
#include <cstdlib>

#include "agent/front.h"

using namespace berth;

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: bench_agent_front LISTEN_PORT ENGINE_PORT SECRET\n");
    return 2;
  }
  runtime::Loop loop;
  auto engine_address = runtime::Address::parse(std::string("127.0.0.1:") + argv[2]);
  if (!engine_address) {
    fprintf(stderr, "%s\n", engine_address.error().message.c_str());
    return 2;
  }
  agent::EngineTarget engine;
  engine.address = *engine_address;
  engine.preset = &config::preset(EngineKind::vllm);
  agent::FrontSettings settings;
  settings.secret = argv[3];
  settings.engine = &engine;
  agent::Front front(loop, settings);
  auto port = front.listen("127.0.0.1", {static_cast<uint16_t>(atoi(argv[1]))});
  if (!port) {
    fprintf(stderr, "%s\n", port.error().message.c_str());
    return 1;
  }
  front.set_ready(agent::Front::Ready::yes, "ready");
  loop.run();  // until it is killed
}
