#include "manifest/registry/published_parts.h"

#include "libshard/base/text/text.h"
#include "manifest/document/corrupt.h"

namespace moepack::registry {

Result<PublishedParts> ReadPublished(const std::string& distribution) {
  PublishedParts read;
  read.tree = std::make_shared<const LocalTree>(distribution);
  SHARD_TRY(static_cast<DistributionParts&>(read), ReadParts(*read.tree));
  return read;
}

Status CheckWhole(const std::string& distribution, const std::vector<std::string>& absent,
                  bool allow_incomplete) {
  if (absent.empty() || allow_incomplete) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(distribution, ": expected a complete distribution, found one that lacks ",
                   moepack::Join(absent, ", ")),
               "--allow-incomplete publishes the parts that are there"};
}

Status CheckPublishedSize(const PublishedParts& parts, const std::string& file, uint64_t bytes) {
  SHARD_TRY(const bool there, parts.tree->Has(file));
  if (!there) {
    return Error{
        Code::kNotFound,
        Cat(parts.tree->NameOf(file), ": expected a file of ", bytes, " bytes, found none"),
        "a directory that `moepack pull` made holds the files of some nodes only: "
        "publish the whole distribution"};
  }
  SHARD_TRY(const ByteSourcePtr source, parts.tree->Open(file));
  if (source->size() == bytes) return Ok();
  return manifest::NameCorrupt(
      parts.tree->name(),
      Error{Code::kMismatch,
            Cat(source->name(), ": file size: expected ", bytes, " bytes, found ", source->size()),
            manifest::kCorruptHint});
}

}  // namespace moepack::registry
