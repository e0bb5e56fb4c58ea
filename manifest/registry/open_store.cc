#include "manifest/registry/open_store.h"

#include <filesystem>
#include <utility>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/scheme.h"
#include "manifest/document/manifest.h"
#include "manifest/document/manifest_json.h"
#include "manifest/registry/store/file_store.h"
#include "manifest/registry/store/oci_layout.h"
#include "manifest/registry/store/web_layout.h"

namespace moepack::registry {
namespace {

using Kind = Reference::Kind;

template <class T>
Result<StorePtr> Shared(Result<T> opened) {
  if (!opened) return std::move(opened).error();
  return StorePtr(std::make_shared<const T>(*std::move(opened)));
}

// An address that ends with '/' is that of a directory.
std::string DirectoryAddress(const std::string& address) {
  return address.ends_with('/') ? address : address + "/";
}

Result<StorePtr> OpenWebLayout(const std::string& address, const StoreAccess& access) {
  remote::RemoteOptions options = access.remote;
  options.compared = true;
  SHARD_TRY(const Source source, remote::OpenAddress(DirectoryAddress(address), options));
  return Shared(WebLayout::Open(source.tree));
}

// How to name a place that is no reference: in this form if only one is likely.
std::string NamingHint(const std::string& place) {
  std::string meant = MeantReferenceHint(place);
  std::error_code error;
  const bool here = std::filesystem::exists(place.substr(0, place.find('/')), error);
  if (!meant.empty() && !here) return meant;
  return Cat("name a layout as ", ShellWord(Cat("layout:", place)),
             ", a registry as oci://host/repository:tag");
}

// For a place without a manifest. If it is something that other commands take, they are named.
Error NoDistribution(const std::string& place, const SourceTree& tree) {
  std::error_code error;
  const bool layout = std::filesystem::exists(std::filesystem::path(place) / kLayoutFile, error);
  const auto other = manifest::ReadManifestText(tree);
  if (!layout && !other && other.error().code == Code::kInvalidArgument) return other.error();
  return {Code::kNotFound,
          Cat(Shown(WithoutSecrets(place)), ": expected a distribution or a reference, found ",
              layout ? "an OCI image layout" : Cat("no ", manifest::kManifestFile)),
          NamingHint(place)};
}

Result<StorePtr> OpenFiles(const std::string& place, const StoreAccess& access) {
  if (remote::IsAddress(place)) {
    SHARD_TRY(const Source source, remote::OpenAddress(place, access.remote));
    return Shared(FileStore::Open(source.tree));
  }
  const auto tree = std::make_shared<const LocalTree>(place);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::path(place) / manifest::kManifestFile, error))
    return NoDistribution(place, *tree);
  return Shared(FileStore::Open(tree));
}

Result<std::shared_ptr<ServerStore>> OpenRegistry(const std::string& place,
                                                  const StoreAccess& access) {
  if (!access.server) {
    return Error{Code::kUnsupported,
                 Cat("oci://", place, ": expected a place without a login, found a registry")};
  }
  SHARD_TRY(const ServerOptions options, access.server(place));
  return OpenServer(place, options);
}

Error ReadOnly(const Reference& reference) {
  const bool local = reference.kind == Kind::kFiles && !remote::IsAddress(reference.place);
  return {Code::kInvalidArgument,
          Cat("reference: expected layout:DIR[:tag] or oci://host/repository[:tag], found ",
              Quoted(WithoutSecrets(reference.place))),
          local ? NamingHint(reference.place)
                : "what a web server serves can only be read: write to a layout:DIR, and have it "
                  "served"};
}

}  // namespace

Result<StorePtr> OpenStore(const Reference& reference, const StoreAccess& access) {
  switch (reference.kind) {
    case Kind::kLayout:
      return Shared(OciLayout::Open(reference.place));
    case Kind::kWebLayout:
      return OpenWebLayout(reference.place, access);
    case Kind::kFiles:
      return OpenFiles(reference.place, access);
    case Kind::kServer:
      break;
  }
  SHARD_TRY(const std::shared_ptr<ServerStore> server, OpenRegistry(reference.place, access));
  return StorePtr(server);
}

Result<std::shared_ptr<WritableStore>> OpenWritable(const Reference& reference,
                                                    const StoreAccess& access) {
  if (reference.kind == Kind::kServer) {
    SHARD_TRY(const std::shared_ptr<ServerStore> server, OpenRegistry(reference.place, access));
    return std::shared_ptr<WritableStore>(server);
  }
  if (reference.kind != Kind::kLayout) return ReadOnly(reference);
  SHARD_TRY(OciLayout layout, OciLayout::OpenOrMake(reference.place, access.lock_wait));
  return std::shared_ptr<WritableStore>(std::make_shared<OciLayout>(std::move(layout)));
}

}  // namespace moepack::registry
