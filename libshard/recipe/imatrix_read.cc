// The GGUF form, as llama-imatrix of llama.cpp v0.5.0 writes it:
//
//   general.type = "imatrix", imatrix.datasets (strings), imatrix.chunk_count, imatrix.chunk_size
//   for every weight W two F32 tensors:
//     W.in_sum2   {row}     sums of the squares of the inputs, {row, experts} for packed experts
//     W.counts    {1}       how many inputs were added up, {1, experts} for packed experts
#include "libshard/recipe/imatrix_read.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"

namespace moepack {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxImatrix = uint64_t{16} << 30;  // those of the largest models have 2 GB

Error Corrupt(const std::string& path, const std::string& message) {
  return Error{Code::kCorrupt, Cat(path, ": ", message)};
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads a number that must fit the u32 key that llama-quantize writes for it.
Result<uint32_t> RequireU32(const std::string& path, const GgufMetadata& metadata,
                            std::string_view key) {
  const auto number = metadata.Uint(key);
  if (!number || *number > UINT32_MAX) {
    return Corrupt(path, Cat(key, ": expected a whole number of at most 32 bits, found ",
                             number ? Cat(*number) : "none"));
  }
  return static_cast<uint32_t>(*number);
}

Status ReadKeys(const std::string& path, const GgufMetadata& metadata, Imatrix& imatrix) {
  const auto type = metadata.String("general.type");
  if (type.value_or("") != "imatrix") {
    return Corrupt(
        path, Cat("general.type: expected \"imatrix\", found ", type ? Quoted(*type) : "none"));
  }
  const GgufValue* datasets = metadata.Find("imatrix.datasets");
  const auto names = datasets == nullptr ? std::nullopt : datasets->AsStrings();
  if (!names) return Corrupt(path, "imatrix.datasets: expected an array of strings, found none");
  imatrix.datasets.assign(names->begin(), names->end());
  SHARD_TRY(imatrix.chunks, RequireU32(path, metadata, "imatrix.chunk_count"));
  SHARD_TRY(imatrix.chunk_tokens, RequireU32(path, metadata, "imatrix.chunk_size"));
  SHARD_TRY(imatrix.router_digest, ImatrixRouters(path, metadata));
  return Ok();
}

Result<std::vector<float>> ReadFloats(const std::string& path, std::span<const std::byte> file,
                                      const TensorEntry& tensor) {
  if (tensor.format == nullptr || tensor.format->name != "f32" || tensor.bytes == 0) {
    return Corrupt(path, Cat("tensor ", Quoted(tensor.name), ": expected F32 values, found ",
                             tensor.bytes, " bytes of ", tensor.dtype));
  }
  std::vector<float> values(tensor.bytes / sizeof(float));
  std::memcpy(values.data(), file.data() + tensor.offset, values.size() * sizeof(float));
  return values;
}

// Returns the vector of an entry that the tensor `name` fills; null for other tensors, which newer
// versions of llama-imatrix may add.
std::vector<float>* SlotOf(Imatrix& imatrix, std::string_view name) {
  for (const std::string_view suffix : {kImatrixSums, kImatrixCounts}) {
    if (!name.ends_with(suffix)) continue;
    ImatrixEntry& entry = imatrix.entries[std::string(name.substr(0, name.size() - suffix.size()))];
    return suffix == kImatrixSums ? &entry.sums : &entry.counts;
  }
  return nullptr;
}

Result<Imatrix> ParseGgufImatrix(const std::string& path, std::span<const std::byte> file) {
  SHARD_TRY(const GgufHeader header, ParseGguf(path, file, file.size()));
  Imatrix imatrix;
  SHARD_CHECK(ReadKeys(path, header.metadata, imatrix));
  for (const TensorEntry& tensor : header.tensors) {
    std::vector<float>* slot = SlotOf(imatrix, tensor.name);
    if (slot == nullptr) continue;
    SHARD_TRY(*slot, ReadFloats(path, file, tensor));
  }
  return imatrix;
}

Status CheckNumbers(const std::string& where, const std::vector<float>& numbers) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [](float x) { return !std::isfinite(x) || x < 0; });
  if (bad == numbers.end()) return Ok();
  return Error{Code::kCorrupt, Cat(where, " ", bad - numbers.begin(),
                                   ": expected a finite number, not negative, found ", *bad)};
}

}  // namespace

Result<std::string> ImatrixRouters(const std::string& path, const GgufMetadata& metadata) {
  if (metadata.Find(kImatrixRouters) == nullptr) return std::string();
  const std::string digest(metadata.String(kImatrixRouters).value_or(""));
  if (IsXxh3Hex(digest)) return digest;
  return Corrupt(path,
                 Cat(kImatrixRouters, ": expected 32 hexadecimal digits, found ", Quoted(digest)));
}

Status CheckImatrixEntry(const std::string& path, const std::string& name,
                         const ImatrixEntry& entry) {
  const std::string where = Cat(path, ": entry ", Quoted(name));
  if (entry.sums.empty() || entry.counts.empty()) {
    const std::string_view missing = entry.sums.empty() ? kImatrixSums : kImatrixCounts;
    return Error{Code::kCorrupt,
                 Cat(where, ": expected sums and counts, found no ", missing.substr(1), " tensor")};
  }
  if (entry.sums.size() % entry.counts.size() != 0) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected equally many sums for each of ",
                     Plural(entry.counts.size(), "count"), ", found ", entry.sums.size())};
  }
  SHARD_CHECK(CheckNumbers(where + ": sum", entry.sums));
  return CheckNumbers(where + ": count", entry.counts);
}

Result<Imatrix> ParseImatrix(const std::string& path, std::span<const std::byte> file) {
  const bool gguf = AsText(file).starts_with(kMagic);
  SHARD_TRY(Imatrix imatrix, gguf ? ParseGgufImatrix(path, file) : ParseLegacyImatrix(path, file));
  if (imatrix.entries.empty()) return Corrupt(path, "expected an entry per weight, found none");
  for (const auto& [name, entry] : imatrix.entries)
    SHARD_CHECK(CheckImatrixEntry(path, name, entry));
  // llama-quantize reads counts as whole numbers, and the means must be the same.
  for (auto& [name, entry] : imatrix.entries) {
    for (float& count : entry.counts) count = std::round(count);
  }
  imatrix.file = fs::path(path).filename().string();
  imatrix.path = path;
  imatrix.sha256 = Sha256Hex(file);
  return imatrix;
}

Result<Imatrix> ReadImatrix(const std::string& path) {
  SHARD_TRY(const std::string text, ReadTextFile(path, kMaxImatrix));
  return ParseImatrix(path, std::as_bytes(std::span(text)));
}

}  // namespace moepack
