#include "libshard/format/safetensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

constexpr uint64_t kLengthBytes = kSafetensorsLengthBytes;
constexpr uint64_t kHeaderAlignment = 8;
constexpr uint64_t kPage = 4096;
constexpr size_t kMaxDtypeLength = 32;
constexpr size_t kMaxName = 1024;
constexpr size_t kUsualNumbers = 2;  // of a matrix's shape, and of data_offsets
constexpr std::string_view kMetadataKey = "__metadata__";

// One entry of the header as it is read. Offsets count from the start of the tensor data.
struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape, offsets;
};

// Follows the three levels of a header: names, fields of an entry, numbers of an array.
class SafetensorsHeaderReader : public JsonEvents {
 public:
  explicit SafetensorsHeaderReader(std::string where) : where_(std::move(where)) {}

  std::vector<RawEntry>& entries() { return entries_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  Status StartObject() override {
    if (depth_ == 2) return Wrong("an object");
    ++depth_;
    return Ok();
  }
  Status EndObject() override {
    --depth_;
    return Ok();
  }
  Status Key(std::string_view key) override {
    if (depth_ == 1) return StartEntry(key);
    field_ = key;
    if (in_metadata_ || field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") {
      return Ok();
    }
    return Error{Code::kCorrupt,
                 Cat(Place(), ": expected dtype, shape and data_offsets, found ", Quoted(field_))};
  }
  Status StartArray() override {
    const bool misplaced = depth_ != 2 || numbers_ != nullptr;
    if (misplaced || in_metadata_ || field_ == "dtype") return Wrong("an array");
    auto& numbers = field_ == "shape" ? entries_.back().shape : entries_.back().offsets;
    numbers.emplace().reserve(kUsualNumbers);
    numbers_ = &*numbers;
    return Ok();
  }
  Status EndArray() override {
    numbers_ = nullptr;
    return Ok();
  }
  Status String(std::string_view text) override {
    if (depth_ == 2 && in_metadata_) {
      metadata_[field_] = text;
      return Ok();
    }
    if (depth_ != 2 || numbers_ != nullptr || field_ != "dtype") return Wrong(Quoted(text));
    entries_.back().dtype = text;
    return Ok();
  }
  Status Unsigned(uint64_t number) override {
    if (numbers_ == nullptr) return Wrong(Cat(number));
    if (numbers_->size() == kMaxDimensions) {
      return Error{Code::kCorrupt, Cat(Place(), ": ", field_, ": expected at most ", kMaxDimensions,
                                       " numbers, found more")};
    }
    numbers_->push_back(number);
    return Ok();
  }
  Status Negative(int64_t number) override { return Wrong(Cat(number)); }
  Status Float(double number) override { return Wrong(DescribeJson(number)); }
  Status Bool(bool value) override { return Wrong(value ? "true" : "false"); }
  Status Null() override { return Wrong("null"); }

 private:
  Status StartEntry(std::string_view key) {
    in_metadata_ = key == kMetadataKey;
    if (in_metadata_) return Ok();
    if (key.empty() || key.size() > kMaxName || HasControlCharacter(key)) {
      return Error{Code::kCorrupt, Cat(where_, ": tensor name: expected printable text of at most ",
                                       kMaxName, " bytes, found ", Quoted(key))};
    }
    entries_.push_back({.name = std::string(key), .dtype = {}, .shape = {}, .offsets = {}});
    return Ok();
  }
  std::string Place() const {
    if (in_metadata_) return Cat(where_, ": __metadata__");
    return entries_.empty() ? where_ : Cat(where_, ": tensor ", Quoted(entries_.back().name));
  }
  Status Wrong(const std::string& found) const {
    if (depth_ == 0) {
      return Error{Code::kCorrupt, Cat(where_, ": expected an object of tensors, found ", found)};
    }
    if (depth_ == 1) {
      return Error{Code::kCorrupt, Cat(Place(), ": expected an object, found ", found)};
    }
    const std::string field = in_metadata_ ? Quoted(field_) : field_;  // a key is any text
    const char* expected = in_metadata_ || field_ == "dtype" ? "a string" : "whole numbers";
    return Error{Code::kCorrupt,
                 Cat(Place(), ": ", field, ": expected ", expected, ", found ", found)};
  }

  std::string where_, field_;
  std::vector<RawEntry> entries_;
  std::map<std::string, std::string> metadata_;
  std::vector<uint64_t>* numbers_ = nullptr;
  int depth_ = 0;
  bool in_metadata_ = false;
};

bool IsDtypeName(std::string_view dtype) {
  return !dtype.empty() && dtype.size() <= kMaxDtypeLength &&
         std::all_of(dtype.begin(), dtype.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

std::optional<uint64_t> CheckedProduct(const std::vector<uint64_t>& shape) {
  uint64_t product = 1;
  for (const uint64_t dimension : shape) {
    const auto next = CheckedMul(product, dimension);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

// Checks an entry on its own. CheckRanges compares its byte range with the file.
Result<TensorEntry> CheckEntry(const std::string& where, RawEntry& raw) {
  const auto place = [&] { return Cat(where, ": tensor ", Quoted(raw.name)); };
  if (!raw.dtype || !raw.shape || !raw.offsets) {
    const char* missing = !raw.dtype ? "dtype" : !raw.shape ? "shape" : "data_offsets";
    return Error{Code::kCorrupt, Cat(place(), ": expected the field ", missing, ", found none")};
  }
  if (!IsDtypeName(*raw.dtype)) {
    return Error{Code::kCorrupt,
                 Cat(place(), ": dtype: expected a type name, found ", Quoted(*raw.dtype))};
  }
  const std::vector<uint64_t>& offsets = *raw.offsets;
  if (offsets.size() != 2 || offsets[1] < offsets[0]) {
    return Error{Code::kCorrupt, Cat(place(), ": data_offsets: expected begin <= end, found ",
                                     FormatShape(offsets))};
  }
  const auto elements = CheckedProduct(*raw.shape);
  if (!elements) {
    return Error{Code::kCorrupt, Cat(place(), ": shape ", FormatShape(*raw.shape),
                                     ": expected fewer than 2^64 elements, found more")};
  }
  TensorEntry entry;
  entry.dtype = *std::move(raw.dtype);
  entry.shape = *std::move(raw.shape);
  entry.format = quant::FindSafetensorsFormat(entry.dtype);
  entry.offset = offsets[0];
  entry.bytes = offsets[1] - offsets[0];
  const auto expected = entry.format == nullptr ? entry.bytes : entry.format->BytesFor(*elements);
  if (!expected || *expected != entry.bytes) {
    return Error{
        Code::kCorrupt,
        Cat(place(), ": ", entry.dtype, " of shape ", FormatShape(entry.shape), ": expected ",
            expected ? Cat(*expected) : "whole", " bytes, found ", entry.bytes)};
  }
  entry.name = std::move(raw.name);
  return entry;
}

// Sorts by offset; the ranges must follow each other from 0 to `data_bytes`.
Status CheckRanges(const std::string& where, uint64_t data_bytes,
                   std::vector<TensorEntry>& tensors) {
  const auto before = [](const TensorEntry& a, const TensorEntry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  };
  // Most headers are in this order already.
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::sort(tensors.begin(), tensors.end(), before);
  }
  uint64_t next = 0;
  for (const TensorEntry& tensor : tensors) {
    const auto place = [&] {
      return Cat(where, ": tensor ", Quoted(tensor.name), ": data begins");
    };
    if (tensor.offset < next) {
      return Error{Code::kCorrupt, Cat(place(), ": expected at ", next, ", found at ",
                                       tensor.offset, ", inside the tensor before it")};
    }
    if (tensor.offset > next) {
      return Error{Code::kCorrupt, Cat(place(), ": expected at ", next, ", found at ",
                                       tensor.offset, ", after a hole")};
    }
    next = tensor.offset + tensor.bytes;
    if (next > data_bytes) {
      return Error{Code::kCorrupt,
                   Cat(where, ": tensor ", Quoted(tensor.name), ": data ends: expected at most at ",
                       data_bytes, " where the file ends, found ", next),
                   "the file is cut short: download or copy it again"};
    }
  }
  if (next == data_bytes) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": tensor data: expected ", next, " bytes, found ",
                                   data_bytes, " up to the end of the file")};
}

Result<uint64_t> HeaderLength(const std::string& path, std::span<const std::byte> file,
                              uint64_t file_size) {
  if (file_size < kLengthBytes || file.size() < kLengthBytes) {
    return Error{Code::kCorrupt, Cat(path, ": header length: expected ", kLengthBytes,
                                     " bytes, found a file of ", file_size)};
  }
  const auto length = LoadLe<uint64_t>(file);
  if (length > kMaxSafetensorsHeader) {
    return Error{Code::kCorrupt, Cat(path, ": header length: expected at most ",
                                     kMaxSafetensorsHeader, ", found ", length)};
  }
  if (length > file_size - kLengthBytes || length > file.size() - kLengthBytes) {
    return Error{Code::kCorrupt,
                 Cat(path, ": header length: expected at most ", file_size - kLengthBytes,
                     " (the rest of the file), found ", length)};
  }
  return length;
}

void AppendQuoted(const std::string& text, std::string& out) {
  if (IsPlainText(text)) {
    out.append("\"").append(text).append("\"");
  } else {
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

std::string Quote(const std::string& text) {
  std::string out;
  AppendQuoted(text, out);
  return out;
}

void AppendDigits(uint64_t number, std::string& out) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

// The text before the two offsets, and the text that closes them.
constexpr std::string_view kEntryEnd = "]}";
constexpr size_t kMaxPlainEntry = 256;  // few are longer
void AppendEntryStart(const TensorEntry& tensor, std::string& out) {
  AppendQuoted(tensor.name, out);
  out += ":{\"dtype\":";
  AppendQuoted(tensor.dtype, out);
  out += ",\"shape\":[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out += ',';
    AppendDigits(tensor.shape[i], out);
  }
  out += "],\"data_offsets\":[";
}

std::string HeaderStart(const std::map<std::string, std::string>& metadata) {
  std::string text(kLengthBytes, '\0');
  text += '{';
  if (metadata.empty()) return text;
  std::string pairs;
  for (const auto& [key, value] : metadata) {
    if (!pairs.empty()) pairs += ",";
    pairs += Cat(Quote(key), ":", Quote(value));
  }
  return text += Cat(Quote(std::string(kMetadataKey)), ":{", pairs, "}");
}

// Where the data starts after a header that takes `bytes` without its padding.
uint64_t PaddedEnd(uint64_t bytes, uint64_t data_start_residue) {
  const uint64_t residue = data_start_residue % kPage / kHeaderAlignment * kHeaderAlignment;
  uint64_t end = kLengthBytes + AlignUp(bytes - kLengthBytes, kHeaderAlignment);
  while (end % kPage != residue) end += kHeaderAlignment;
  return end;
}

uint64_t DigitsOf(uint64_t number) {
  uint64_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}

}  // namespace

Result<SafetensorsHeader> ParseSafetensors(const std::string& path, std::span<const std::byte> file,
                                           uint64_t file_size) {
  SHARD_TRY(const uint64_t length, HeaderLength(path, file, file_size));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const std::string where = Cat(path, ": header");
  if (!text.starts_with('{')) {
    return Error{Code::kCorrupt, Cat(where, ": expected '{' as the first byte, found ",
                                     text.empty() ? "an empty header" : Quoted(text.substr(0, 1)))};
  }
  SafetensorsHeaderReader reader(where);
  SHARD_CHECK(StreamJson(where, text, reader));

  SafetensorsHeader header;
  header.metadata = std::move(reader.metadata());
  header.data_start = kLengthBytes + length;
  header.tensors.reserve(reader.entries().size());
  for (RawEntry& raw : reader.entries()) {
    SHARD_TRY(TensorEntry entry, CheckEntry(path, raw));
    header.tensors.push_back(std::move(entry));
  }
  SHARD_CHECK(CheckRanges(path, file_size - header.data_start, header.tensors));
  for (TensorEntry& tensor : header.tensors) tensor.offset += header.data_start;
  return header;
}

SafetensorsHeaderWriter::SafetensorsHeaderWriter(const std::map<std::string, std::string>& metadata)
    : text_(HeaderStart(metadata)) {}

void SafetensorsHeaderWriter::Expect(const TensorEntry& tensor) {
  // An upper bound unless names need escapes. Memory that is not written to is not resident.
  constexpr uint64_t kAroundName = 96, kDigitsOfNumber = 21;
  expected_ += tensor.name.size() + kAroundName + kDigitsOfNumber * (tensor.shape.size() + 2);
}

void SafetensorsHeaderWriter::Add(const TensorEntry& tensor) {
  if (text_.capacity() < expected_) text_.reserve(text_.size() + expected_ + kPage);
  if (text_.back() != '{') text_ += ",";
  AppendEntryStart(tensor, text_);
  AppendDigits(next_, text_);
  text_ += ',';
  next_ += tensor.bytes;
  AppendDigits(next_, text_);
  text_ += kEntryEnd;
}

std::string SafetensorsHeaderWriter::Finish(uint64_t data_start_residue) && {
  text_ += '}';
  const uint64_t end = PaddedEnd(text_.size(), data_start_residue);
  text_.resize(end, ' ');
  StoreLe<uint64_t>(end - kLengthBytes, std::as_writable_bytes(std::span(text_)));
  return std::move(text_);
}

SafetensorsFileSize::SafetensorsFileSize(const std::map<std::string, std::string>& metadata) {
  const std::string start = HeaderStart(metadata);
  header_ = start.size();
  follows_ = start.back() != '{';
}

uint64_t SafetensorsFileSize::EntryBytes(const TensorEntry& tensor) {
  std::string start;
  start.reserve(kMaxPlainEntry);
  AppendEntryStart(tensor, start);
  return start.size() + kEntryEnd.size();
}

void SafetensorsFileSize::Add(uint64_t entry_bytes, uint64_t tensor_bytes) {
  header_ += entry_bytes + (follows_ ? 1 : 0);
  next_ += tensor_bytes;
  const uint64_t begin_digits = std::exchange(digits_, DigitsOf(next_));
  header_ += begin_digits + 1 + digits_;
  follows_ = true;
}

uint64_t SafetensorsFileSize::Finish(uint64_t data_start_residue) const {
  return PaddedEnd(header_ + 1, data_start_residue) + next_;
}

std::string BuildSafetensorsHeader(const std::vector<TensorEntry>& tensors,
                                   const std::map<std::string, std::string>& metadata,
                                   uint64_t data_start_residue) {
  SafetensorsHeaderWriter writer(metadata);
  for (const TensorEntry& tensor : tensors) writer.Add(tensor);
  return std::move(writer).Finish(data_start_residue);
}

}  // namespace moepack
