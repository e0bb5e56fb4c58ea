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
#include <span>

#include "libshard/base/bytes.h"
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

// All numbers are little-endian:
//
//   i32 entries
//   entries x { i32 length, name, i32 calls, i32 values, f32 each }
//   then, unless the file ends here: i32 chunks
//   then, unless the file ends here: i32 length, name of the calibration text

namespace {

constexpr uint32_t kMaxName = 1024;
// The bytes of the smallest entry, which has a name of one byte and one value.
constexpr size_t kLeastEntry = 4 + 1 + 4 + 4 + 4;

class LegacyReader {
 public:
  LegacyReader(const std::string& path, std::span<const std::byte> file)
      : path_(path), size_(file.size()), rest_(file) {}

  Result<Imatrix> Read() {
    SHARD_TRY(const uint32_t count, Number("number of entries"));
    if (count == 0 || count > rest_.size() / kLeastEntry) {
      return Wrong(
          Cat("expected an importance matrix (a GGUF file or a legacy one), found a "
              "number of entries of ",
              count, " before ", rest_.size(), " bytes; an entry has at least ", kLeastEntry));
    }
    Imatrix imatrix;
    for (uint32_t i = 0; i < count; ++i) SHARD_CHECK(Entry(imatrix));
    SHARD_CHECK(Trailer(imatrix));
    return imatrix;
  }

 private:
  Error Wrong(const std::string& message) const {
    return Error{Code::kCorrupt, Cat(path_, ": ", message)};
  }

  // All numbers of the format are counts, so none may be negative.
  Result<uint32_t> Number(const std::string& what) {
    if (rest_.size() < sizeof(int32_t)) {
      return Wrong(Cat(what, ": expected 4 bytes at ", size_ - rest_.size(), ", found ",
                       rest_.size(), " up to the end of the file"));
    }
    const auto number = LoadLe<int32_t>(rest_);
    if (number < 0) return Wrong(Cat(what, ": expected at least 0, found ", number));
    rest_ = rest_.subspan(sizeof(int32_t));
    return static_cast<uint32_t>(number);
  }

  Result<std::string> Name(const char* what) {
    SHARD_TRY(const uint32_t length, Number(Cat(what, ": length")));
    if (length > kMaxName || length > rest_.size()) {
      return Wrong(
          Cat(what, ": expected at most ", kMaxName, " bytes inside the file, found ", length));
    }
    std::string name(reinterpret_cast<const char*>(rest_.data()), length);
    rest_ = rest_.subspan(length);
    return name;
  }

  Status Entry(Imatrix& imatrix) {
    SHARD_TRY(const std::string name, Name("name of an entry"));
    const std::string where = Cat("entry ", Quoted(name));
    if (name.empty()) return Wrong("name of an entry: expected text, found none");
    if (imatrix.entries.contains(name)) return Wrong(Cat(where, ": expected once, found twice"));
    SHARD_TRY(const uint32_t calls, Number(where + ": number of calls"));
    SHARD_TRY(const uint32_t values, Number(where + ": number of values"));
    if (values == 0 || values > rest_.size() / sizeof(float)) {
      return Wrong(Cat(where, ": number of values: expected 1 to ", rest_.size() / sizeof(float),
                       " as the file goes on, found ", values));
    }
    ImatrixEntry& entry = imatrix.entries[name];
    entry.sums.resize(values);
    std::memcpy(entry.sums.data(), rest_.data(), values * sizeof(float));
    rest_ = rest_.subspan(values * sizeof(float));
    // Zero calls: the values are used as they are.
    entry.counts = {calls == 0 ? 1.0F : static_cast<float>(calls)};
    return Ok();
  }

  Status Trailer(Imatrix& imatrix) {
    if (rest_.empty()) return Ok();
    SHARD_TRY(imatrix.chunks, Number("number of chunks"));
    if (rest_.empty()) return Ok();
    SHARD_TRY(const std::string dataset, Name("name of the calibration text"));
    if (!dataset.empty()) imatrix.datasets.push_back(dataset);
    if (rest_.empty()) return Ok();
    return Wrong(
        Cat("expected the end at ", size_ - rest_.size(), ", found ", rest_.size(), " more bytes"));
  }

  const std::string& path_;
  const size_t size_;
  std::span<const std::byte> rest_;
};

}  // namespace

Result<Imatrix> ParseLegacyImatrix(const std::string& path, std::span<const std::byte> file) {
  return LegacyReader(path, file).Read();
}

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
