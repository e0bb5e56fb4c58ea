// The layout, all integers little-endian and without padding up to the tensor data:
//
//   "GGUF"  u32 version  u64 tensors  u64 pairs
//   pairs   x { string key, u32 type, value }
//   tensors x { string name, u32 dimensions, u64 each (fastest first), u32 type, u64 offset }
//   zeros up to a multiple of general.alignment, then the tensors, each padded to it
//
// where a string is a u64 length and its bytes.
#include "libshard/format/gguf.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "quant/other_types.h"

namespace moepack {
namespace {

// Bounded reads from the header of a GGUF file. Its errors say where in the file they occurred.

// A cursor over the header in `file`, the first bytes of a file of `file_size`. Reading outside it
// is an error that names the place set by At; needed() tells whether more of the file would have
// helped. Messages are only built when there is an error.
class GgufCursor {
 public:
  GgufCursor(const std::string& path, std::span<const std::byte> file, uint64_t file_size)
      : path_(path), file_(file), file_size_(file_size) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_size_ - position_; }
  // The number of bytes of the file that are needed to read on; 0 if there were enough.
  uint64_t needed() const { return needed_; }
  uint64_t file_size() const { return file_size_; }
  // Sets the place for errors, which then begin with 'key "a" at byte 24'. `name` is borrowed.
  void At(const char* kind, std::string_view name, uint64_t at) {
    place_ = {.kind = kind, .name = name, .at = at};
  }
  // The same for a key or tensor without a name yet: "key number 3 at byte 24".
  void At(const char* kind, uint64_t number) {
    place_ = {.kind = kind, .name = {}, .number = number, .at = position_};
  }

  Error Corrupt(const std::string& text, const std::string& hint = "") const {
    return {Code::kCorrupt, Place() + text, hint};
  }
  Error Unsupported(const std::string& text, const std::string& hint) const {
    return {Code::kUnsupported, Place() + text, hint};
  }

  Result<std::span<const std::byte>> Take(const char* what, uint64_t bytes) {
    if (bytes > left()) {
      return Corrupt(
          Cat(what, ": expected ", bytes, " bytes, found ", left(), " up to the end of the file"),
          "the file is cut short or corrupt: download or copy it again");
    }
    if (bytes > file_.size() - position_) {
      needed_ = position_ + bytes;
      return Corrupt(Cat(what, ": expected in the first ", file_.size(), " bytes, found behind"));
    }
    const auto out = file_.subspan(position_, bytes);
    position_ += bytes;
    return out;
  }
  template <class T>
  Result<T> Number(const char* what) {
    SHARD_TRY(const auto bytes, Take(what, sizeof(T)));
    return LoadLe<T>(bytes);
  }
  // Reads a string. The text is borrowed from the file.
  Result<std::string_view> String(const char* what, uint64_t limit) {
    SHARD_TRY(const uint64_t length, Number<uint64_t>(what));
    if (length > limit) {
      return Corrupt(Cat(what, ": expected at most ", limit, " bytes, found ", length));
    }
    SHARD_TRY(const auto bytes, Take(what, length));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string Since(uint64_t start) const {
    const auto bytes = file_.subspan(start, position_ - start);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  struct PlaceInFile {
    const char* kind = nullptr;  // null: the start of the file
    std::string_view name = {};
    uint64_t number = 0, at = 0;
  };

  std::string Place() const {
    if (place_.kind == nullptr) return path_ + ": ";
    const std::string name =
        place_.name.empty() ? Cat("number ", place_.number) : Quoted(place_.name);
    return Cat(path_, ": ", place_.kind, " ", name, " at byte ", place_.at, ": ");
  }

  const std::string& path_;
  std::span<const std::byte> file_;
  uint64_t file_size_ = 0, position_ = 0, needed_ = 0;
  PlaceInFile place_;
};

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kOldestVersion = 2, kNewestVersion = 3;
constexpr uint64_t kMaxLength = 1u << 30;  // of strings, and elements of an array
// The limit for arrays of strings. The longest lists of tokens and merges have half a million. A
// string takes at least eight bytes in the file and several times that in memory, so a small
// hostile file could otherwise ask for much.
constexpr uint64_t kMaxStrings = 1u << 22;
constexpr uint64_t kMaxKey = 65535;
constexpr uint64_t kMaxElements = std::numeric_limits<int64_t>::max();
// The fewest bytes that a pair (a key of one letter, a u8) and a tensor (no dimensions) take.
// Counts are checked against the remaining bytes before anything is allocated for them.
constexpr uint64_t kLeastPair = 8 + 1 + 4 + 1, kLeastTensor = 8 + 1 + 4 + 4 + 8;

std::string DescribeType(uint32_t id) {
  const quant::OtherType* const type = quant::FindOtherType(id);
  return type == nullptr ? Cat(id) : Cat(id, " (", type->name, ", ", OwnerText(type->owner), ")");
}

const char* HintForType(uint32_t id) {
  const quant::OtherType* const type = quant::FindOtherType(id);
  return type != nullptr && type->owner == quant::TypeOwner::kIkLlamaCpp
             ? "only ik_llama.cpp reads it: quantize the original model with moepack or llama.cpp"
             : "convert or quantize the model again with a current llama.cpp";
}

// Reads one header from front to back.
class GgufHeaderReader {
 public:
  GgufHeaderReader(const std::string& path, std::span<const std::byte> file, uint64_t file_size)
      : in_(path, file, file_size) {}

  Result<GgufHeader> Read();
  uint64_t needed() const { return in_.needed(); }

 private:
  struct RawTensor {
    TensorEntry entry;    // without its offset
    uint64_t offset = 0;  // from the start of the data
    uint64_t info_at = 0;
  };
  // A name in the file and its position.
  struct Named {
    std::string_view name;
    uint64_t at = 0;
  };

  Status ReadVersion();
  Status ReadCounts();
  Status ReadPairs();
  Result<GgufEntry> ReadPair();
  Status SkipValue(GgufType type);
  Status SkipArray();
  Status CheckBools(uint64_t count);
  Result<GgufType> ReadValueType(const char* what);
  Status SetAlignment(const GgufValue& value);
  Result<RawTensor> ReadTensor();
  Result<std::vector<uint64_t>> ReadShape();
  Status SetBytes(uint32_t type, TensorEntry& entry);
  Status CheckNames(const char* kind);
  Status PlaceTensors(std::vector<RawTensor>& tensors);

  GgufCursor in_;
  GgufHeader out_;
  std::vector<Named> names_;  // first those of the keys, then those of the tensors
  uint64_t tensors_ = 0, pairs_ = 0;
};

Status GgufHeaderReader::ReadVersion() {
  SHARD_TRY(const auto magic, in_.Take("magic", kMagic.size()));
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found != kMagic) return in_.Corrupt(Cat("magic: expected \"GGUF\", found ", Quoted(found)));
  SHARD_TRY(out_.version, in_.Number<uint32_t>("version"));
  // A small number whose bytes are swapped has zeros in its lower half. ggml's reader
  // (gguf_init_from_file) tests the same.
  if (out_.version != 0 && (out_.version & 0xffff) == 0) {
    return in_.Unsupported("version: expected a little-endian file, found a big-endian one",
                           "gguf_convert_endian.py of llama.cpp's gguf-py converts it");
  }
  if (out_.version >= kOldestVersion && out_.version <= kNewestVersion) return Ok();
  const std::string text =
      Cat("version: expected ", kOldestVersion, " or ", kNewestVersion, ", found ", out_.version);
  if (out_.version == 0) return in_.Corrupt(text);
  return in_.Unsupported(text, "convert the model again with a current llama.cpp");
}

Status GgufHeaderReader::ReadCounts() {
  SHARD_TRY(tensors_, in_.Number<uint64_t>("number of tensors"));
  SHARD_TRY(pairs_, in_.Number<uint64_t>("number of keys"));
  if (pairs_ > in_.left() / kLeastPair) {
    return in_.Corrupt(Cat("number of keys: expected at most ", in_.left() / kLeastPair,
                           ", which the file has room for, found ", pairs_));
  }
  if (tensors_ > in_.left() / kLeastTensor) {
    return in_.Corrupt(Cat("number of tensors: expected at most ", in_.left() / kLeastTensor,
                           ", which the file has room for, found ", tensors_));
  }
  return Ok();
}

Result<GgufType> GgufHeaderReader::ReadValueType(const char* what) {
  SHARD_TRY(const uint32_t type, in_.Number<uint32_t>(what));
  const auto last = static_cast<uint32_t>(GgufType::kF64);
  if (type > last) {
    return in_.Corrupt(Cat(what, ": expected an id from 0 to ", last, ", found ", type));
  }
  return static_cast<GgufType>(type);
}

Status GgufHeaderReader::CheckBools(uint64_t count) {
  SHARD_TRY(const auto bytes, in_.Take("value", count));
  for (const std::byte byte : bytes) {
    if (byte <= std::byte{1}) continue;
    return in_.Corrupt(Cat("bool: expected 0 or 1, found ", static_cast<int>(byte)));
  }
  return Ok();
}

Status GgufHeaderReader::SkipArray() {
  SHARD_TRY(const GgufType element, ReadValueType("element type"));
  if (element == GgufType::kArray) {
    return in_.Corrupt("element type: expected a plain type, found an array of arrays");
  }
  SHARD_TRY(const uint64_t count, in_.Number<uint64_t>("array length"));
  const uint64_t least = element == GgufType::kString ? sizeof(uint64_t) : GgufTypeBytes(element);
  const uint64_t most =
      std::min(element == GgufType::kString ? kMaxStrings : kMaxLength, in_.left() / least);
  if (count > most) {
    return in_.Corrupt(Cat("array length: expected at most ", most, " elements, found ", count));
  }
  if (element == GgufType::kBool) return CheckBools(count);
  if (element != GgufType::kString) {
    SHARD_CHECK(in_.Take("array", count * least));
    return Ok();
  }
  for (uint64_t i = 0; i < count; ++i) SHARD_CHECK(in_.String("element", kMaxLength));
  return Ok();
}

Status GgufHeaderReader::SkipValue(GgufType type) {
  if (type == GgufType::kArray) return SkipArray();
  if (type == GgufType::kBool) return CheckBools(1);
  if (type == GgufType::kString) {
    SHARD_CHECK(in_.String("string", kMaxLength));
  } else {
    SHARD_CHECK(in_.Take("value", GgufTypeBytes(type)));
  }
  return Ok();
}

// Refuses a name that occurs twice. The names are sorted and not hashed, because a hostile file
// could choose names that collide.
Status GgufHeaderReader::CheckNames(const char* kind) {
  std::sort(names_.begin(), names_.end(), [](const Named& a, const Named& b) {
    return a.name != b.name ? a.name < b.name : a.at < b.at;
  });
  const auto twice =
      std::adjacent_find(names_.begin(), names_.end(),
                         [](const Named& a, const Named& b) { return a.name == b.name; });
  if (twice != names_.end()) {
    in_.At(kind, twice->name, twice[1].at);
    return in_.Corrupt(Cat("expected once, found already at byte ", twice->at));
  }
  names_.clear();
  return Ok();
}

Result<GgufEntry> GgufHeaderReader::ReadPair() {
  const uint64_t at = in_.position();
  SHARD_TRY(const std::string_view key, in_.String("name", kMaxKey));
  if (key.empty()) return in_.Corrupt("name: expected text, found none");
  if (!IsUtf8(key)) return in_.Corrupt("name: expected UTF-8, found other bytes");
  names_.push_back({key, at});
  in_.At("key", key, at);
  SHARD_TRY(const GgufType type, ReadValueType("value type"));
  const uint64_t start = in_.position();
  SHARD_CHECK(SkipValue(type));
  GgufEntry entry{std::string(key), {.type = type, .bytes = in_.Since(start)}};
  if (key == kGgufAlignmentKey) SHARD_CHECK(SetAlignment(entry.value));
  return entry;
}

Status GgufHeaderReader::ReadPairs() {
  std::vector<GgufEntry> entries;
  for (uint64_t i = 0; i < pairs_; ++i) {
    in_.At("key", i);
    SHARD_TRY(GgufEntry entry, ReadPair());
    entries.push_back(std::move(entry));
  }
  SHARD_CHECK(CheckNames("key"));
  out_.metadata = GgufMetadata(std::move(entries));
  return Ok();
}

Status GgufHeaderReader::SetAlignment(const GgufValue& value) {
  if (value.type != GgufType::kU32) {
    return in_.Corrupt(Cat("expected a u32, found a value of type ", GgufTypeName(value.type)));
  }
  out_.alignment = *value.AsUint();
  if (std::has_single_bit(out_.alignment)) return Ok();
  return in_.Corrupt(Cat("expected a power of two, found ", out_.alignment));
}

// The file has the fastest dimension first; shapes have the slowest first everywhere in this code.
Result<std::vector<uint64_t>> GgufHeaderReader::ReadShape() {
  SHARD_TRY(const uint32_t dimensions, in_.Number<uint32_t>("number of dimensions"));
  if (dimensions > kMaxGgufDimensions) {
    return in_.Corrupt(
        Cat("number of dimensions: expected at most ", kMaxGgufDimensions, ", found ", dimensions));
  }
  std::vector<uint64_t> shape(dimensions);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    SHARD_TRY(const uint64_t length, in_.Number<uint64_t>("dimension"));
    shape[dimensions - 1 - i] = length;
    if (length == 0) return in_.Corrupt(Cat("dimension ", i, ": expected at least 1, found 0"));
    const auto product = CheckedMul(elements, length);
    if (!product || *product > kMaxElements) {
      return in_.Corrupt(Cat("dimension ", i, ": expected fewer than 2^63 elements, found more (",
                             elements, " times ", length, ")"));
    }
    elements = *product;
  }
  return shape;
}

Status GgufHeaderReader::SetBytes(uint32_t type, TensorEntry& entry) {
  // FindGgmlFormat takes an int, in which ids from 2^31 on would be negative. ggml has no type of
  // this id.
  constexpr uint32_t kNoType = std::numeric_limits<int>::max();
  entry.format = quant::FindGgmlFormat(static_cast<int>(std::min(type, kNoType)));
  if (entry.format == nullptr) {
    return in_.Unsupported(
        Cat("type: expected one of ggml's tensor types, found ", DescribeType(type)),
        HintForType(type));
  }
  entry.dtype = entry.format->name;
  const uint64_t row = entry.shape.empty() ? 1 : entry.shape.back();
  if (row % entry.format->block_values != 0) {
    return in_.Corrupt(Cat("row of ", entry.dtype, ": expected a multiple of ",
                           entry.format->block_values, " elements, found ", row));
  }
  const auto bytes = entry.format->BytesFor(entry.Elements());
  if (!bytes) {
    return in_.Corrupt(Cat(entry.dtype, " of shape ", FormatShape(entry.shape),
                           ": expected fewer than 2^64 bytes, found more"));
  }
  entry.bytes = *bytes;
  return Ok();
}

Result<GgufHeaderReader::RawTensor> GgufHeaderReader::ReadTensor() {
  const uint64_t at = in_.position();
  RawTensor tensor{.entry = {}, .info_at = at};
  SHARD_TRY(const std::string_view name, in_.String("name", kMaxGgufTensorName));
  if (name.empty() || HasControlCharacter(name) || !IsUtf8(name)) {
    return in_.Corrupt(Cat("name: expected printable text of 1 to ", kMaxGgufTensorName,
                           " bytes, found ", Quoted(name)));
  }
  tensor.entry.name = name;
  names_.push_back({name, at});
  in_.At("tensor", name, at);
  SHARD_TRY(tensor.entry.shape, ReadShape());
  SHARD_TRY(const uint32_t type, in_.Number<uint32_t>("type"));
  SHARD_CHECK(SetBytes(type, tensor.entry));
  SHARD_TRY(tensor.offset, in_.Number<uint64_t>("offset"));
  return tensor;
}

// Every tensor must begin where the padding of the one before it ends; ggml's reader requires the
// same. That rules out overlaps and holes.
Status GgufHeaderReader::PlaceTensors(std::vector<RawTensor>& tensors) {
  const uint64_t aligned = AlignUp(in_.position(), out_.alignment);
  out_.data_start = std::min(aligned, in_.file_size());
  uint64_t next = 0;
  for (RawTensor& raw : tensors) {
    in_.At("tensor", raw.entry.name, raw.info_at);
    if (raw.offset != next) {
      const char* why = raw.offset % out_.alignment != 0 ? ", which is not aligned"
                        : raw.offset < next              ? ", inside the tensor before it"
                                                         : ", after a hole";
      return in_.Corrupt(Cat("offset: expected ", next, ", found ", raw.offset, why));
    }
    const auto begin = CheckedAdd(aligned, next);
    const auto end = begin ? CheckedAdd(*begin, raw.entry.bytes) : std::nullopt;
    if (!end || *end > in_.file_size()) {
      return in_.Corrupt(Cat("data: expected ", raw.entry.bytes, " bytes from byte ",
                             begin.value_or(0), ", found the end of the file at ", in_.file_size()),
                         "the file is cut short: download or copy it again");
    }
    raw.entry.offset = *begin;
    next = AlignUp(next + raw.entry.bytes, out_.alignment);
    out_.tensors.push_back(std::move(raw.entry));
  }
  return Ok();
}

Result<GgufHeader> GgufHeaderReader::Read() {
  SHARD_CHECK(ReadVersion());
  SHARD_CHECK(ReadCounts());
  SHARD_CHECK(ReadPairs());
  std::vector<RawTensor> tensors;
  for (uint64_t i = 0; i < tensors_; ++i) {
    in_.At("tensor", i);
    SHARD_TRY(RawTensor tensor, ReadTensor());
    tensors.push_back(std::move(tensor));
  }
  SHARD_CHECK(CheckNames("tensor"));
  out_.tensors.reserve(tensors.size());
  SHARD_CHECK(PlaceTensors(tensors));
  return std::move(out_);
}

}  // namespace

Result<GgufHeader> ParseGguf(const std::string& path, std::span<const std::byte> file,
                             uint64_t file_size, uint64_t* needed) {
  GgufHeaderReader reader(path, file, file_size);
  Result<GgufHeader> header = reader.Read();
  if (needed != nullptr) *needed = reader.needed();
  return header;
}

namespace {

constexpr uint32_t kVersion = 3;

void AppendTensor(std::string& out, const TensorEntry& tensor, uint64_t offset) {
  AppendGgufString(out, tensor.name);
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
  // GGUF lists the dimension that is contiguous in memory first.
  for (auto at = tensor.shape.rbegin(); at != tensor.shape.rend(); ++at)
    AppendLe<uint64_t>(out, *at);
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tensor.format->ggml_type));
  AppendLe<uint64_t>(out, offset);
}

// The text before the tensors' entries.
std::string GgufHeaderStart(GgufMetadata metadata, uint64_t tensors, uint64_t alignment) {
  if (alignment == kGgufDefaultAlignment) {
    // A file without the key has the default alignment, so the key would say nothing.
    metadata.Remove(kGgufAlignmentKey);
  } else {
    metadata.Set(kGgufAlignmentKey, GgufValue::U32(static_cast<uint32_t>(alignment)));
  }
  std::string out = "GGUF";
  AppendLe<uint32_t>(out, kVersion);
  AppendLe<uint64_t>(out, tensors);
  AppendLe<uint64_t>(out, metadata.entries().size());
  for (const GgufEntry& entry : metadata.entries()) {
    AppendGgufString(out, entry.key);
    AppendLe<uint32_t>(out, static_cast<uint32_t>(entry.value.type));
    out += entry.value.bytes;
  }
  return out;
}

}  // namespace

std::string BuildGgufHeader(GgufMetadata metadata, const std::vector<TensorEntry>& tensors,
                            uint64_t alignment) {
  std::string out = GgufHeaderStart(std::move(metadata), tensors.size(), alignment);
  uint64_t offset = 0;
  for (const TensorEntry& tensor : tensors) {
    AppendTensor(out, tensor, offset);
    offset = AlignUp(offset + tensor.bytes, alignment);
  }
  out.resize(AlignUp(out.size(), alignment), '\0');
  return out;
}

uint64_t GgufFileSize::EntryBytes(const TensorEntry& tensor) {
  std::string entry;
  AppendTensor(entry, tensor, 0);
  return entry.size();
}

GgufFileSize::GgufFileSize(const GgufMetadata& metadata, uint64_t alignment)
    : alignment_(alignment), header_(GgufHeaderStart(metadata, 0, alignment).size()) {}

void GgufFileSize::Add(uint64_t entry_bytes, uint64_t tensor_bytes) {
  header_ += entry_bytes;
  data_ += AlignUp(tensor_bytes, alignment_);
}

uint64_t GgufFileSize::Finish() const { return AlignUp(header_, alignment_) + data_; }

void LayOutGguf(OutputFile& file, const GgufMetadata& metadata, uint64_t alignment) {
  std::vector<TensorEntry> entries;
  entries.reserve(file.tensors.size());
  for (const OutputTensor& tensor : file.tensors) entries.push_back(tensor.entry);
  file.prefix = BuildGgufHeader(metadata, entries, alignment);
  file.size = file.prefix.size();
  for (OutputTensor& tensor : file.tensors) {
    tensor.entry.offset = file.size;
    file.size = AlignUp(file.size + tensor.entry.bytes, alignment);
  }
}

}  // namespace moepack
