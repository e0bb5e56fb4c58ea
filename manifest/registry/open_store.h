// The only place where a reference becomes a store.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/open_remote.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/server_store.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

// How places are reached.
struct StoreAccess {
  remote::RemoteOptions remote = {};  // for addresses and layouts on web servers
  // For a registry, "host[:port]/repository": settings and credentials. kUnsupported without it.
  std::function<Result<ServerOptions>(const std::string& place)> server = {};
  // How long OpenWritable waits for a layout that another process is changing.
  std::chrono::milliseconds lock_wait = {};
};

// kNotFound if there is no such place. Errors are those of the stores.
Result<StorePtr> OpenStore(const Reference& reference, const StoreAccess& access);
// Creates a missing layout, and holds its lock until the store is destroyed. kInvalidArgument for a
// read-only place.
Result<std::shared_ptr<WritableStore>> OpenWritable(const Reference& reference,
                                                    const StoreAccess& access);

}  // namespace moepack::registry
