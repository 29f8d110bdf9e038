// UpstreamPool: idle connections to upstreams, by address, on one loop.
//
// Guarantees: a connection whose peer has closed it (or sent anything) while idle is gone from the
// pool at once; none stays longer than its idle limit, which is to be below the peer's own. The
// race that remains (the peer's FIN is under way) is the relay's: it tries once more on a fresh
// one. Ownership: an UpstreamPtr is a connection and its place in the pool; destroying it closes
// it, give_back() keeps it. The pool must outlive the UpstreamPtrs. Threading: the loop's thread.
// Cost: taking and giving back are a hash lookup and a store each; no allocation, no system call.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/loop.h"
#include "runtime/socket.h"

namespace berth::http {

class UpstreamPool;

class Upstream final : private runtime::Waiter, private runtime::Timer {
 public:
  ~Upstream() override;
  runtime::Stream& stream() { return *stream_; }
  bool reused() const { return reused_; }

 private:
  friend class UpstreamPool;
  struct Bucket;
  Upstream(UpstreamPool& pool, Bucket& bucket, runtime::StreamPtr stream)
      : pool_(pool), bucket_(bucket), stream_(std::move(stream)) {}
  bool complete() override;  // the peer closed or spoke while idle
  void fire() override;      // idle for too long

  UpstreamPool& pool_;
  Bucket& bucket_;
  runtime::StreamPtr stream_;
  bool reused_ = false;
  size_t place_ = 0;
};
using UpstreamPtr = std::unique_ptr<Upstream>;

class UpstreamPool {
 public:
  explicit UpstreamPool(runtime::Loop& loop, size_t max_idle_per_address = 512);
  ~UpstreamPool();

  // The most recently used idle connection; nullptr: none.
  UpstreamPtr take(const std::string& address);
  // A new connection, made by the caller, as one that can be given back.
  UpstreamPtr adopt(const std::string& address, runtime::StreamPtr stream);
  // Keeps it for at most `idle_limit`, unless the peer is leaving.
  void give_back(UpstreamPtr upstream, Duration idle_limit);
  // Closes what is idle there: the replica is gone.
  void forget(const std::string& address);

  size_t idle() const { return idle_; }

 private:
  friend class Upstream;
  Upstream::Bucket& bucket(const std::string& address);
  UpstreamPtr remove(Upstream& upstream);
  void retire(Upstream::Bucket& bucket);

  runtime::Loop& loop_;
  size_t max_idle_;
  size_t idle_ = 0;
  std::unordered_map<std::string, std::unique_ptr<Upstream::Bucket>> buckets_;
};

}  // namespace berth::http
