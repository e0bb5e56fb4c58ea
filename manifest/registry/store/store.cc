#include "manifest/registry/store/store.h"

#include "libshard/base/digest.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/transfer/fetch_file.h"

namespace moepack::registry {

std::string Store::NameOf(const BlobRecord& blob) const {
  const std::string path = blob.path();
  return Cat(name(), ": blob ", blob.digest, path.empty() ? "" : Cat(" (", Shown(path), ")"));
}

std::string Store::CorruptHint() const {
  if (!blobs().LocalPath("")) return kCorruptOnServerHint;
  return "what is stored there is corrupt: publish the distribution to it again";
}

Result<std::string> Store::ReadBlob(const BlobRecord& blob, uint64_t limit) const {
  if (blob.size > limit) {
    return Error{Code::kCorrupt, Cat(NameOf(blob), ": size: expected at most ", limit,
                                     " bytes, found ", blob.size)};
  }
  SHARD_CHECK(CheckBlob(blob));
  SHARD_TRY(std::string text, blobs().ReadText(FileOf(blob), limit));
  const std::string found = DigestOf(Sha256Hex(text));
  if (found == blob.digest) return text;
  return Error{Code::kCorrupt,
               Cat(NameOf(blob), ": content: expected ", blob.digest, ", found ", found),
               CorruptHint()};
}

}  // namespace moepack::registry
