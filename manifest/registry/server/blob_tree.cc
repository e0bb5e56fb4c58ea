#include "manifest/registry/server/blob_tree.h"

#include <utility>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store/oci_layout.h"

namespace moepack::registry {
namespace {

// The digest of "blobs/sha256/<digits>", or "".
std::string DigestOfFile(const std::string& file) {
  const std::string folder = Cat(kBlobFolder, "/");
  if (!file.starts_with(folder)) return "";
  const std::string digest = DigestOf(file.substr(folder.size()));
  return IsDigest(digest) ? digest : "";
}

// Asks the registry, so that a refusal renews the credentials.
remote::Locate LocateBlob(std::shared_ptr<const RegistryClient> client, std::string digest) {
  return [client = std::move(client),
          digest = std::move(digest)](const remote::Url* refused) -> Result<remote::HttpRequest> {
    if (refused != nullptr) SHARD_CHECK(client->HeadBlob(digest));
    return client->BlobRequest(digest);
  };
}

}  // namespace

BlobTree::BlobTree(std::shared_ptr<const RegistryClient> client)
    : RemoteTree(remote::MakeTransport(client->shared_http()), client->name()),
      registry_(std::move(client)) {}

std::string BlobTree::FileOf(const std::string& digest) {
  return Cat(kBlobFolder, "/", HexOf(digest));
}

void BlobTree::Know(const std::string& digest, uint64_t size, std::string name) const {
  const std::lock_guard lock(mutex_);
  known_[digest] = {size, std::move(name)};
}

std::string BlobTree::NameOf(const std::string& file) const {
  const std::string digest = DigestOfFile(file);
  if (digest.empty()) return RemoteTree::NameOf(file);
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(digest);
  return known == known_.end() ? Cat(registry_->name(), ": blob ", digest) : known->second.name;
}

Result<std::vector<std::string>> BlobTree::List(const std::string&, std::string_view) const {
  return std::vector<std::string>();
}

Result<bool> BlobTree::Has(const std::string& file) const {
  const std::string digest = DigestOfFile(file);
  if (digest.empty()) return false;
  SHARD_TRY(const std::optional<Present> present, registry_->HeadBlob(digest));
  return present.has_value();
}

Result<ByteSourcePtr> BlobTree::OpenNew(const std::string& file) const {
  const std::string digest = DigestOfFile(file);
  if (digest.empty()) return NoSuchFile(file);
  remote::FilePlace place;
  place.name = NameOf(file);
  place.identity = digest;
  place.locate = LocateBlob(registry_, digest);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(digest); known != known_.end())
      place.size = known->second.size;
  }
  if (!place.size) {
    SHARD_TRY(const std::optional<Present> present, registry_->HeadBlob(digest));
    if (!present) return NoSuchFile(file);
    place.size = present->size;
  }
  return remote::HttpSource::Open(transport(), std::move(place));
}

}  // namespace moepack::registry
