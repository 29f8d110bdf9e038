#include <nlohmann/json.hpp>

#include "base/id.h"
#include "controller/admin.h"
#include "model/names.h"

namespace berth::controller {
namespace {

bool is_operator(const route::Caller& caller) {
  return caller.role == route::Caller::Role::operator_;
}

std::string_view role_text(KeyRecord::Role role) {
  return role == KeyRecord::Role::operator_ ? "operator" : "user";
}

Json key_document(const KeyRecord& key) {
  return {{"id", key.id},
          {"name", key.name},
          {"user", key.user},
          {"project", key.project},
          {"groups", key.groups},
          {"role", role_text(key.role)},
          {"created_at", to_rfc3339(key.created_at)},
          {"expires_at", key.expires_at ? Json(to_rfc3339(*key.expires_at)) : Json(nullptr)},
          {"revoked_at", key.revoked_at ? Json(to_rfc3339(*key.revoked_at)) : Json(nullptr)}};
}

std::string text_member(const Json& document, const char* name, const std::string& fallback) {
  if (!document.contains(name) || !document[name].is_string()) return fallback;
  return document[name].get<std::string>();
}

// The record that a request asks for, or what is wrong with it.
Result<KeyRecord> key_from(const Json& body, const route::Caller& caller) {
  KeyRecord key;
  key.name = text_member(body, "name", "");
  if (key.name.empty() || key.name.size() > 64)
    return invalid_argument("a key needs a name of 1 to 64 bytes, to tell it from others later");
  key.user = text_member(body, "user", caller.user);
  key.project = text_member(body, "project", caller.project);
  if (auto s = check_account_name("user", key.user); !s) return std::move(s).error();
  if (!key.project.empty())
    if (auto s = check_account_name("project", key.project); !s) return std::move(s).error();
  if (text_member(body, "role", "user") == "operator") key.role = KeyRecord::Role::operator_;
  if (body.contains("groups"))
    for (const Json& group : body["groups"])
      if (group.is_string()) key.groups.push_back(group.get<std::string>());
  if (body.contains("expires_at") && !body["expires_at"].is_null()) {
    key.expires_at = parse_rfc3339(text_member(body, "expires_at", ""));
    if (!key.expires_at) return invalid_argument("expires_at must be a time in RFC 3339 form");
  }
  bool own = key.user == caller.user && key.project == caller.project &&
             key.role == KeyRecord::Role::user && key.groups.empty();
  if (!own && !is_operator(caller))
    return Error{Code::permission_denied,
                 "only an operator makes keys for others, for other projects, with groups or with "
                 "the operator's role",
                 Source::caller, Retry::no};
  return key;
}

}  // namespace

ApiTask list_keys(ApiContext& context, const ApiCall& call) {
  Json keys = Json::array();
  for (const auto& [id, key] : context.state.snapshot().keys)
    if (is_operator(call.caller) || key.user == call.caller.user) keys.push_back(key_document(key));
  co_return reply_json({{"v", 1}, {"keys", std::move(keys)}});
}

ApiTask create_key(ApiContext& context, const ApiCall& call) {
  auto body = parse_json(call.request.body);
  if (!body) co_return reply_error(body.error());
  if (!body->is_object()) co_return reply_error(invalid_argument("the body must be an object"));
  auto made = key_from(*body, call.caller);
  if (!made) co_return reply_error(made.error());
  KeyRecord key = std::move(made).value();
  std::string text = "sk-berth-" + random_base62(40);
  key.id = "k_" + random_base62(8);
  key.digest = sha256_hex(text);
  key.created_at = context.clock();
  store::Change change;
  change.put_keys.push_back(key);
  change.events.push_back({0, key.created_at, "", "", "key_created",
                           "key " + key.id + " for " + key.user + " by " + call.caller.user});
  if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
  context.changed();
  Json document = key_document(key);
  document["v"] = 1;
  document["key"] = text;
  co_return reply_json(document, 201);
}

ApiTask revoke_key(ApiContext& context, const ApiCall& call) {
  const auto& keys = context.state.snapshot().keys;
  auto it = keys.find(call.names[0]);
  if (it == keys.end() || (!is_operator(call.caller) && it->second.user != call.caller.user))
    co_return reply_error(not_found("no key with id \"" + call.names[0] + "\""));
  KeyRecord key = it->second;
  if (!key.revoked_at) {
    key.revoked_at = context.clock();
    store::Change change;
    change.put_keys.push_back(key);
    change.events.push_back(
        {0, *key.revoked_at, "", "", "key_revoked", "key " + key.id + " by " + call.caller.user});
    if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
    context.changed();
  }
  Json document = key_document(key);
  document["v"] = 1;
  co_return reply_json(document);
}

ApiTask list_grants(ApiContext& context, const ApiCall&) {
  Json grants = Json::array();
  for (const auto& [name, grant] : context.state.snapshot().grants)
    grants.push_back({{"name", grant.name},
                      {"holder", grant.holder},
                      {"granted_by", grant.granted_by},
                      {"created_at", to_rfc3339(grant.created_at)}});
  co_return reply_json({{"v", 1}, {"grants", std::move(grants)}});
}

ApiTask create_grant(ApiContext& context, const ApiCall& call) {
  auto body = parse_json(call.request.body);
  if (!body) co_return reply_error(body.error());
  if (!body->is_object()) co_return reply_error(invalid_argument("the body must be an object"));
  store::GrantRecord grant;
  grant.name = text_member(*body, "name", "");
  grant.holder = text_member(*body, "holder", "");
  if (auto s = check_service_name(grant.name); !s) co_return reply_error(s.error());
  std::string_view holder = grant.holder;
  if (holder.starts_with("project:")) holder.remove_prefix(8);
  if (auto s = check_account_name("holder", holder); !s) co_return reply_error(s.error());
  const auto& grants = context.state.snapshot().grants;
  if (auto it = grants.find(grant.name); it != grants.end() && it->second.holder != grant.holder)
    co_return reply_error(Error{
        Code::conflict,
        "\"" + grant.name + "\" is granted to " + it->second.holder + "; remove that grant first",
        Source::caller, Retry::no});
  grant.granted_by = call.caller.user;
  grant.created_at = context.clock();
  store::Change change;
  change.put_grants.push_back(grant);
  change.events.push_back({0, grant.created_at, grant.name, "", "granted",
                           "to " + grant.holder + " by " + grant.granted_by});
  if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
  co_return reply_json({{"v", 1}, {"name", grant.name}, {"holder", grant.holder}}, 201);
}

ApiTask remove_grant(ApiContext& context, const ApiCall& call) {
  const std::string& name = call.names[0];
  if (!context.state.snapshot().grants.count(name))
    co_return reply_error(not_found("\"" + name + "\" is not granted to anybody"));
  store::Change change;
  change.remove_grants.push_back(name);
  change.events.push_back(
      {0, context.clock(), name, "", "grant_removed", "by " + call.caller.user});
  if (auto s = context.state.commit(change); !s) co_return reply_error(s.error());
  co_return reply_json({{"v", 1}, {"name", name}});
}

}  // namespace berth::controller
