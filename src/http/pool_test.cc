#include "http/pool.h"

#include "http/upstream_fake.h"

namespace berth::http {
namespace {

using runtime::Loop;
using runtime::Task;

Task<UpstreamPtr> fresh(Loop& loop, UpstreamPool& pool, std::string address) {
  auto parsed = runtime::Address::parse(address);
  auto connected = co_await runtime::connect(loop, *parsed);
  CHECK(connected.ok());
  co_return pool.adopt(address, std::move(connected).value());
}

Task<void> stay(FakeConnection& c) { co_await c.until_peer_closes(); }
Task<void> leave_on_flag(FakeConnection& c) {
  if (c.index == 0) {
    co_await c.until_flag("leave");
  } else {
    co_await c.until_peer_closes();
  }
}

Task<void> reuse(Loop& loop) {
  UpstreamFake fake(loop, stay);
  UpstreamPool pool(loop);
  UpstreamPtr a = co_await fresh(loop, pool, fake.address());
  UpstreamPtr b = co_await fresh(loop, pool, fake.address());
  Upstream* newest = b.get();
  EXPECT_FALSE(a->reused());
  pool.give_back(std::move(a), seconds(10));
  pool.give_back(std::move(b), seconds(10));
  EXPECT_EQ(pool.idle(), 2u);
  EXPECT_EQ(pool.take("127.0.0.1:1"), nullptr);
  UpstreamPtr again = pool.take(fake.address());
  EXPECT_EQ(again.get(), newest);
  EXPECT_TRUE(again->reused());
  again.reset();  // not given back: closed
  auto one_closed = [&] { return fake.connections[1]->peer_closed; };
  co_await until(loop, "the dropped connection to close", one_closed);
  EXPECT_EQ(pool.idle(), 1u);
  pool.forget(fake.address());
  EXPECT_EQ(pool.idle(), 0u);
  auto both_closed = [&] { return fake.connections[0]->peer_closed; };
  co_await until(loop, "the forgotten connection to close", both_closed);
}

TEST(UpstreamPool, GivesTheMostRecentAndForgets) {
  Loop loop;
  loop.run_until(reuse(loop));
}

Task<void> peer_leaves(Loop& loop) {
  UpstreamFake fake(loop, leave_on_flag);
  UpstreamPool pool(loop);
  UpstreamPtr a = co_await fresh(loop, pool, fake.address());
  UpstreamPtr b = co_await fresh(loop, pool, fake.address());
  Upstream* stays = b.get();
  pool.give_back(std::move(a), seconds(10));
  pool.give_back(std::move(b), seconds(10));
  fake.raise("leave");
  auto one_left = [&] { return pool.idle() == 1; };
  co_await until(loop, "the pool to notice the FIN", one_left);
  EXPECT_EQ(pool.take(fake.address()).get(), stays);
}

TEST(UpstreamPool, DropsAConnectionWhosePeerCloses) {
  Loop loop;
  loop.run_until(peer_leaves(loop));
}

Task<void> idles_out(Loop& loop) {
  UpstreamFake fake(loop, stay);
  UpstreamPool pool(loop);
  UpstreamPtr a = co_await fresh(loop, pool, fake.address());
  pool.give_back(std::move(a), Duration(30));
  EXPECT_EQ(pool.idle(), 1u);
  auto gone = [&] { return pool.idle() == 0 && fake.connections[0]->peer_closed; };
  co_await until(loop, "the idle limit", gone);
}

TEST(UpstreamPool, KeepsNothingBeyondItsIdleLimit) {
  Loop loop;
  loop.run_until(idles_out(loop));
}

}  // namespace
}  // namespace berth::http
