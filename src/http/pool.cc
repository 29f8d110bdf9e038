#include "http/pool.h"

namespace berth::http {

struct Upstream::Bucket {
  std::string address;
  std::vector<UpstreamPtr> idle;  // the last is the most recent
  size_t leased = 0;
};

Upstream::~Upstream() {
  if (!pool_.buckets_.empty() && --bucket_.leased == 0) pool_.retire(bucket_);
}

bool Upstream::complete() {
  pool_.remove(*this).reset();
  return false;
}

void Upstream::fire() { pool_.remove(*this).reset(); }

UpstreamPool::UpstreamPool(runtime::Loop& loop, size_t max_idle_per_address)
    : loop_(loop), max_idle_(max_idle_per_address) {}

UpstreamPool::~UpstreamPool() {
  auto buckets = std::move(buckets_);
  buckets_.clear();
}

Upstream::Bucket& UpstreamPool::bucket(const std::string& address) {
  auto& slot = buckets_[address];
  if (!slot) {
    slot = std::make_unique<Upstream::Bucket>();
    slot->address = address;
  }
  return *slot;
}

// leased counts every Upstream of the bucket that exists, idle ones included.
void UpstreamPool::retire(Upstream::Bucket& bucket) {
  std::string address = bucket.address;
  buckets_.erase(address);
}

UpstreamPtr UpstreamPool::remove(Upstream& upstream) {
  auto& idle = upstream.bucket_.idle;
  size_t place = upstream.place_;
  UpstreamPtr out = std::move(idle[place]);
  if (place + 1 != idle.size()) {
    idle[place] = std::move(idle.back());
    idle[place]->place_ = place;
  }
  idle.pop_back();
  idle_--;
  out->disarm();
  out->stream_->unwatch_idle();
  return out;
}

UpstreamPtr UpstreamPool::take(const std::string& address) {
  auto found = buckets_.find(address);
  if (found == buckets_.end() || found->second->idle.empty()) return nullptr;
  UpstreamPtr out = remove(*found->second->idle.back());
  out->reused_ = true;
  return out;
}

UpstreamPtr UpstreamPool::adopt(const std::string& address, runtime::StreamPtr stream) {
  Upstream::Bucket& home = bucket(address);
  home.leased++;
  return UpstreamPtr(new Upstream(*this, home, std::move(stream)));
}

void UpstreamPool::give_back(UpstreamPtr upstream, Duration idle_limit) {
  auto& idle = upstream->bucket_.idle;
  if (!upstream->stream_->quiet() || idle_limit.count() <= 0 || idle.size() >= max_idle_) return;
  upstream->place_ = idle.size();
  upstream->arm(loop_.timers(), loop_.now() + idle_limit);
  upstream->stream_->watch_idle(*upstream);
  idle.push_back(std::move(upstream));
  idle_++;
}

void UpstreamPool::forget(const std::string& address) {
  auto found = buckets_.find(address);
  if (found == buckets_.end()) return;
  auto idle = std::move(found->second->idle);
  found->second->idle.clear();
  idle_ -= idle.size();
}

}  // namespace berth::http
