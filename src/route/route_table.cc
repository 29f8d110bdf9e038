#include "route/route_table.h"

#include <algorithm>

namespace berth::route {
namespace {

bool holds(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

bool may_use(const Route& route, const Caller& caller) {
  if (caller.role == Caller::Role::operator_ || route.access.scope == AccessSpec::Scope::everybody)
    return true;
  if (!caller.user.empty() && caller.user == route.owner) return true;
  if (!caller.project.empty() && caller.project == route.project) return true;
  if (holds(route.access.users, caller.user) || holds(route.access.projects, caller.project))
    return true;
  return std::any_of(caller.groups.begin(), caller.groups.end(),
                     [&](const std::string& g) { return holds(route.access.groups, g); });
}

RouteTable::RouteTable(std::vector<Route> routes) {
  for (Route& r : routes) {
    std::string name = r.public_name;
    routes_.emplace(std::move(name), std::move(r));
  }
}

const Route* RouteTable::find(std::string_view model, const Caller& caller) const {
  if (auto it = routes_.find(model); it != routes_.end())
    return may_use(it->second, caller) ? &it->second : nullptr;
  if (caller.user.empty()) return nullptr;
  std::string own;
  own.reserve(caller.user.size() + 1 + model.size());
  own.append(caller.user).append("/").append(model);
  auto it = routes_.find(own);
  return it != routes_.end() && may_use(it->second, caller) ? &it->second : nullptr;
}

std::vector<const Route*> RouteTable::visible(const Caller& caller) const {
  std::vector<const Route*> out;
  for (const auto& [name, r] : routes_)
    if (may_use(r, caller)) out.push_back(&r);
  return out;
}

const Target* pick(const Route& route, uint64_t ticket, const std::vector<std::string>& tried) {
  const Target* best = nullptr;
  int32_t best_load = 0;
  size_t n = route.targets.size();
  for (size_t i = 0; i < n; ++i) {
    const Target& t = route.targets[(ticket + i) % n];
    if (!tried.empty() && holds(tried, t.lease_id)) continue;
    int32_t load = t.load->outstanding.load(std::memory_order_relaxed);
    if (!best || load < best_load) {
      best = &t;
      best_load = load;
    }
  }
  return best;
}

const KeyTable::Entry* KeyTable::find(const std::string& digest, Instant now) const {
  auto it = entries_.find(digest);
  if (it == entries_.end()) return nullptr;
  const Entry& e = it->second;
  return e.expires_at && now >= *e.expires_at ? nullptr : &e;
}

}  // namespace berth::route
