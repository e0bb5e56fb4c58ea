// The one place where a reference becomes a store.
#pragma once

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
  remote::RemoteOptions remote = {};  // of addresses and of layouts on web servers
  // Of a registry, "host[:port]/repository": settings and credentials. kUnsupported without it.
  std::function<Result<ServerOptions>(const std::string& place)> server = {};
};

// kNotFound when there is no such place. Errors are those of the stores.
Result<StorePtr> OpenStore(const Reference& reference, const StoreAccess& access);
// Makes a layout that is not there, and takes its lock until the store goes. kInvalidArgument for
// a place that can only be read.
Result<std::shared_ptr<WritableStore>> OpenWritable(const Reference& reference,
                                                    const StoreAccess& access);

}  // namespace moepack::registry
