#include <span>

#include "libshard/base/bytes.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"
#include "libshard/recipe/imatrix_read.h"

namespace moepack {
namespace {

// `rows` is the number of experts, or 1; llama-imatrix writes that dimension, too.
TensorEntry EntryOf(const std::string& name, uint64_t values, uint64_t rows) {
  TensorEntry entry;
  entry.name = name;
  entry.format = quant::FindFormat("f32");
  entry.shape = {rows, values / rows};
  entry.bytes = values * sizeof(float);
  return entry;
}

std::string HeaderOf(const Imatrix& imatrix) {
  GgufMetadata metadata;
  metadata.Set("general.type", GgufValue::String("imatrix"));
  metadata.Set("imatrix.datasets", GgufValue::Strings(imatrix.datasets));
  metadata.Set("imatrix.chunk_count", GgufValue::U32(imatrix.chunks));
  metadata.Set("imatrix.chunk_size", GgufValue::U32(imatrix.chunk_tokens));
  if (!imatrix.router_digest.empty())
    metadata.Set(kImatrixRouters, GgufValue::String(imatrix.router_digest));
  std::vector<TensorEntry> tensors;
  for (const auto& [name, entry] : imatrix.entries) {
    const uint64_t rows = entry.counts.size();
    tensors.push_back(EntryOf(Cat(name, kImatrixSums), entry.sums.size(), rows));
    tensors.push_back(EntryOf(Cat(name, kImatrixCounts), rows, rows));
  }
  return BuildGgufHeader(std::move(metadata), tensors);
}

Status WriteFloats(AtomicFile& file, const std::vector<float>& values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  bytes.resize(AlignUp(bytes.size(), kGgufDefaultAlignment));
  return file.Write(bytes);
}

}  // namespace

Status WriteImatrix(const std::string& path, const Imatrix& imatrix, bool replace) {
  if (imatrix.entries.empty())
    return Error{Code::kCorrupt, Cat(path, ": expected an entry per weight, found none")};
  uint64_t size = 0;
  for (const auto& [name, entry] : imatrix.entries) {
    SHARD_CHECK(CheckImatrixEntry(path, name, entry));
    for (const std::vector<float>* values : {&entry.sums, &entry.counts})
      size += AlignUp(values->size() * sizeof(float), kGgufDefaultAlignment);
  }
  const std::string header = HeaderOf(imatrix);
  // What our own reader would refuse is not written.
  SHARD_TRY(const GgufHeader read,
            ParseGguf(path, std::as_bytes(std::span(header)), header.size() + size));
  SHARD_CHECK(ImatrixRouters(path, read.metadata));
  SHARD_TRY(AtomicFile file, AtomicFile::Create(path, replace));
  SHARD_CHECK(file.Write(header));
  for (const auto& [name, entry] : imatrix.entries) {
    SHARD_CHECK(WriteFloats(file, entry.sums));
    SHARD_CHECK(WriteFloats(file, entry.counts));
  }
  return file.Commit();
}

}  // namespace moepack
