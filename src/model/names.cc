#include "model/names.h"

#include <algorithm>

namespace berth {
namespace {

bool alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

Status check_service_name(std::string_view name) {
  auto bad = [&](std::string_view why) {
    return invalid_argument("service name \"" + std::string(name.substr(0, 120)) +
                            "\": " + std::string(why));
  };
  if (name.empty()) return bad("must not be empty");
  if (name.size() > 96) return bad("must not be longer than 96 bytes");
  if (!alnum(name[0])) return bad("must start with a letter or a digit");
  if (!std::all_of(name.begin(), name.end(), [](char c) {
        return alnum(c) || c == '.' || c == '_' || c == ':' || c == '-' || c == '/';
      }))
    return bad("may hold letters, digits and . _ : - / only");
  if (name.back() == '/' || name.find("//") != std::string_view::npos)
    return bad("must not have empty segments between slashes");
  for (size_t at = 0; at < name.size();) {
    size_t end = std::min(name.find('/', at), name.size());
    std::string_view segment = name.substr(at, end - at);
    if (segment == "." || segment == "..") return bad("must not have a segment \".\" or \"..\"");
    at = end + 1;
  }
  return {};
}

Status check_account_name(std::string_view what, std::string_view name) {
  bool ok = !name.empty() && name.size() <= 64 && (alnum(name[0]) || name[0] == '_') &&
            std::all_of(name.begin(), name.end(),
                        [](char c) { return alnum(c) || c == '_' || c == '.' || c == '-'; });
  if (ok) return {};
  return invalid_argument(std::string(what) + " \"" + std::string(name.substr(0, 80)) +
                          "\" must be 1 to 64 letters, digits or _ . - and start with a letter, "
                          "a digit or _");
}

}  // namespace berth
