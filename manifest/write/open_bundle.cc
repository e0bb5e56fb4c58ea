#include "manifest/write/open_bundle.h"

#include <map>

#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"

namespace moepack::manifest {

namespace {

struct Header {
  std::vector<TensorEntry> tensors;
  GgufMetadata metadata;
  uint64_t data_start = 0;
  std::string model;
};

constexpr const char* kModelKey = "moepack.model";

Result<Header> ReadHeader(const ByteSource& file, const std::string& format) {
  const std::string& name = file.name();
  if (format == "gguf") {
    SHARD_TRY(GgufHeader header, ReadGgufHeader(file, name));
    const std::string model(header.metadata.String(kModelKey).value_or(""));
    return Header{std::move(header.tensors), std::move(header.metadata), header.data_start, model};
  }
  SHARD_TRY(SafetensorsHeader header, ReadSafetensorsHeader(file, name));
  return Header{std::move(header.tensors), {}, header.data_start, header.metadata[kModelKey]};
}

bool SameAsRecord(const TensorRecord* record, const TensorEntry& entry) {
  return record != nullptr && record->offset == entry.offset && record->shape == entry.shape &&
         record->dtype == entry.dtype;
}

}  // namespace

Result<ByteSourcePtr> OpenBundleFile(const SourceTree& distribution, const std::string& file) {
  auto opened = distribution.Open(file);
  if (opened || opened.error().code != Code::kNotFound) return opened;
  SHARD_TRY(const bool pulled, distribution.Has(kPullLockFile));
  if (!pulled) return opened;
  Error error = std::move(opened).error();
  error.hint = NotPulledHint(distribution, "choose among these, or pull the others, too");
  return error;
}

std::string NotPulledHint(const SourceTree& distribution, const std::string& what_to_do) {
  return Cat(distribution.NameOf(kPullLockFile),
             " names the groups and the overlay that were pulled: ", what_to_do);
}

Result<OpenedBundle> OpenBundle(const SourceTreePtr& distribution, const BundleRecord& bundle,
                                uint32_t file) {
  SHARD_TRY(const ByteSourcePtr opened, OpenBundleFile(*distribution, bundle.file));
  SHARD_TRY(Header header, ReadHeader(*opened, bundle.format));
  SHARD_TRY(std::string sha256, Sha256OfStart(*opened, header.data_start));
  OpenedBundle out;
  out.source = {.path = opened->name(),
                .name = bundle.file,
                .size = opened->size(),
                .data_start = header.data_start,
                .header_sha256 = std::move(sha256),
                .identity = opened->identity(),
                .tree = distribution};
  out.metadata = std::move(header.metadata);
  out.model = std::move(header.model);
  std::map<std::string_view, const TensorRecord*> records;
  for (const TensorRecord& record : bundle.tensors) records[record.name] = &record;
  for (TensorEntry& entry : header.tensors) {
    const auto found = records.find(entry.name);
    const TensorRecord* record = found == records.end() ? nullptr : found->second;
    // What follows reads by the manifest's offsets, so the file must have its tensors there.
    if (!SameAsRecord(record, entry) || header.tensors.size() != records.size()) {
      return Error{Code::kMismatch,
                   Cat(opened->name(), ": tensor ", Quoted(entry.name),
                       ": expected as the manifest says, found otherwise"),
                   kCorruptHint};
    }
    entry.file = file;
    out.tensors.push_back({record, std::move(entry)});
  }
  return out;
}

Result<uint64_t> AlignmentOf(const SourceTree& distribution, const BundleRecord& bundle) {
  SHARD_TRY(const ByteSourcePtr opened, distribution.Open(bundle.file));
  SHARD_TRY(const GgufHeader header, ReadGgufHeader(*opened, opened->name()));
  return header.alignment;
}

}  // namespace moepack::manifest
