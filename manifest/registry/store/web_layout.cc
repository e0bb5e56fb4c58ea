#include "manifest/registry/store/web_layout.h"

#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store/oci_layout.h"

namespace moepack::registry {
namespace {

Error NoWebLayout(const SourceTree& tree) {
  return {Code::kNotFound,
          Cat(tree.name(), ": expected an OCI image layout, found no file ", kLayoutFile),
          "give the address of the directory that publish wrote, as its server shows it"};
}

}  // namespace

WebLayout::WebLayout(SourceTreePtr tree, LayoutIndex index)
    : tree_(std::move(tree)), index_(std::move(index)) {}

Result<WebLayout> WebLayout::Open(SourceTreePtr tree) {
  const auto version = tree->ReadText(kLayoutFile, kMaxLayoutFile);
  if (!version && version.error().code == Code::kNotFound) return NoWebLayout(*tree);
  if (!version) return version.error();
  SHARD_CHECK(CheckLayoutText(tree->NameOf(kLayoutFile), *version));
  SHARD_TRY(const std::string text, tree->ReadText(kIndexFile, kMaxIndex));
  SHARD_TRY(LayoutIndex index, LayoutIndex::Parse(tree->NameOf(kIndexFile), text));
  return WebLayout(std::move(tree), std::move(index));
}

Result<BlobRecord> WebLayout::FindTag(const std::string& tag) const {
  return index_.Find(name(), tag);
}

Result<std::string> WebLayout::ReadManifest(const BlobRecord& manifest) const {
  const LayoutIndex::Entry* entry = index_.FindDigest(manifest.digest);
  BlobRecord blob = entry == nullptr ? manifest : entry->blob;
  if (blob.size == 0) {  // nobody stated the size of a manifest that is not listed
    SHARD_TRY(const ByteSourcePtr source, tree_->Open(FileOf(blob)));
    blob.size = source->size();
  }
  return ReadBlob(blob, kMaxOciManifest);
}

Result<std::vector<Tagged>> WebLayout::List() const { return TagsOf(index_); }

std::string WebLayout::FileOf(const BlobRecord& blob) const { return LayoutBlobFile(blob.digest); }

Status WebLayout::CheckBlob(const BlobRecord& blob) const {
  auto source = tree_->Open(FileOf(blob));
  if (!source) return std::move(source).error().Within(NameOf(blob));
  const uint64_t found = (*source)->size();
  if (found == blob.size) return Ok();
  return Error{Code::kCorrupt,
               Cat(NameOf(blob), ": size: expected ", blob.size, " bytes, found ", found),
               "what the server holds is corrupt: publish the distribution to it again"};
}

}  // namespace moepack::registry
