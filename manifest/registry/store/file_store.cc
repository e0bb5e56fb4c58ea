#include "manifest/registry/store/file_store.h"

#include <utility>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {

FileStore::FileStore(SourceTreePtr tree, DistributionParts parts)
    : tree_(std::move(tree)),
      parts_(std::move(parts)),
      artifact_(MakeArtifact(parts_.manifest, DescribeSet(parts_.manifest, parts_.files))) {}

Result<FileStore> FileStore::Open(SourceTreePtr tree) {
  SHARD_TRY(DistributionParts parts, ReadParts(*tree));
  return FileStore(std::move(tree), std::move(parts));
}

Result<BlobRecord> FileStore::FindTag(const std::string& tag) const {
  if (tag == kDefaultTag) return artifact_.blob;
  return Error{Code::kNotFound, Cat(name(), ": tag: expected ", Quoted(tag),
                                    ", found a distribution as files, which has no tags")};
}

Result<std::string> FileStore::ReadManifest(const BlobRecord& manifest) const {
  if (manifest.digest == artifact_.blob.digest) return artifact_.text;
  return Error{Code::kNotFound, Cat(name(), ": manifest: expected ", artifact_.blob.digest,
                                    ", found ", manifest.digest)};
}

Result<std::vector<Tagged>> FileStore::List() const {
  return std::vector<Tagged>{{kDefaultTag, artifact_.blob}};
}

Status FileStore::CheckBlob(const BlobRecord& blob) const {
  if (blob.digest == artifact_.oci.config.digest) return Ok();  // it was never a file
  SHARD_TRY(const ByteSourcePtr file, tree_->Open(FileOf(blob)));
  if (file->size() == blob.size) return Ok();
  return Error{Code::kCorrupt, Cat(file->name(), ": file size: expected ", blob.size,
                                   " bytes, found ", file->size())};
}

// The config was never a file; what was already read is not read again.
Result<std::string> FileStore::ReadBlob(const BlobRecord& blob, uint64_t limit) const {
  if (blob.digest == artifact_.oci.config.digest) return artifact_.config;
  if (blob.digest == parts_.files.distribution.digest) return parts_.text;
  return Store::ReadBlob(blob, limit);
}

}  // namespace moepack::registry
