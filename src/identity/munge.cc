#include "identity/munge.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

namespace berth::identity {
namespace {

// The part of libmunge's interface that is used here; stable since 0.5.
constexpr int kOptSocket = 8;
constexpr int kErrorSocket = 6;
constexpr int kErrorExpired = 15;
constexpr int kErrorRewound = 16;
constexpr int kErrorReplayed = 17;

struct Library {
  using Context = void*;
  Context (*ctx_create)() = nullptr;
  void (*ctx_destroy)(Context) = nullptr;
  int (*ctx_set)(Context, int, ...) = nullptr;
  const char* (*ctx_strerror)(Context) = nullptr;
  int (*encode)(char**, Context, const void*, int) = nullptr;
  int (*decode)(const char*, Context, void**, int*, uid_t*, gid_t*) = nullptr;
  const char* (*strerror)(int) = nullptr;
  std::string error;
};

template <class F>
bool look_up(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

Library load_library() {
  Library lib;
  void* handle = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    lib.error =
        "this machine has no libmunge.so.2: install MUNGE (Debian: libmunge2), or use a "
        "join token or an API key";
    return lib;
  }
  bool whole = look_up(handle, "munge_ctx_create", lib.ctx_create) &&
               look_up(handle, "munge_ctx_destroy", lib.ctx_destroy) &&
               look_up(handle, "munge_ctx_set", lib.ctx_set) &&
               look_up(handle, "munge_ctx_strerror", lib.ctx_strerror) &&
               look_up(handle, "munge_encode", lib.encode) &&
               look_up(handle, "munge_decode", lib.decode) &&
               look_up(handle, "munge_strerror", lib.strerror);
  if (!whole) lib.error = "libmunge.so.2 lacks a function Berth needs; is it MUNGE 0.5 or later?";
  return lib;
}

// Opened once; never closed, as other threads may be inside.
const Library& library() {
  static const Library lib = load_library();
  return lib;
}

struct FreeMalloced {
  void operator()(void* p) const { std::free(p); }
};
struct DestroyContext {
  void operator()(void* p) const { library().ctx_destroy(p); }
};
using ContextPtr = std::unique_ptr<void, DestroyContext>;

Result<ContextPtr> make_context(const std::string& socket_path) {
  const Library& lib = library();
  ContextPtr context(lib.ctx_create());
  if (!context) return internal_error("MUNGE: out of memory");
  if (!socket_path.empty()) {
    int rc = lib.ctx_set(context.get(), kOptSocket, socket_path.c_str());
    if (rc != 0)
      return invalid_argument("MUNGE: socket \"" + socket_path + "\": " + lib.strerror(rc));
  }
  return context;
}

Error daemon_error(std::string_view what, const ContextPtr& context, int rc) {
  const Library& lib = library();
  const char* more = lib.ctx_strerror(context.get());
  std::string message = std::string(what) + ": " + (more ? more : lib.strerror(rc));
  if (rc == kErrorSocket) {
    Error error = unavailable(message + "; is munged running here?", Source::system);
    error.retry = Retry::yes;
    return error;
  }
  Error error;
  error.code = Code::unauthenticated;
  error.message = message;
  error.source = Source::caller;
  if (rc == kErrorExpired || rc == kErrorRewound)
    error.message += "; compare the clocks of the two machines";
  if (rc == kErrorReplayed) error.message += "; each credential is good for one use";
  return error;
}

}  // namespace

Result<Munge> Munge::open(std::string socket_path) {
  if (!library().error.empty()) return unavailable(library().error, Source::system);
  return Munge(std::move(socket_path));
}

Result<std::string> Munge::encode(std::string_view payload) const {
  auto context = make_context(socket_path_);
  if (!context) return std::move(context).error();
  char* text = nullptr;
  int rc =
      library().encode(&text, context->get(), payload.data(), static_cast<int>(payload.size()));
  std::unique_ptr<char, FreeMalloced> owned(text);
  if (rc != 0) return daemon_error("making a MUNGE credential", *context, rc);
  return std::string(owned.get());
}

Result<MungeCredential> Munge::decode(std::string_view credential) const {
  auto context = make_context(socket_path_);
  if (!context) return std::move(context).error();
  std::string text(credential);
  void* data = nullptr;
  int size = 0;
  MungeCredential out;
  out.uid = static_cast<uid_t>(-1);
  out.gid = static_cast<gid_t>(-1);
  int rc = library().decode(text.c_str(), context->get(), &data, &size, &out.uid, &out.gid);
  std::unique_ptr<void, FreeMalloced> owned(data);
  // An expired or replayed credential comes with its contents; they are not handed on.
  if (rc != 0) return daemon_error("checking a MUNGE credential", *context, rc);
  if (data && size > 0) out.payload.assign(static_cast<const char*>(data), size);
  return out;
}

}  // namespace berth::identity
