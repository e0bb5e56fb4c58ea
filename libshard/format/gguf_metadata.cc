#include "libshard/format/gguf_metadata.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "libshard/base/bytes.h"

namespace moepack {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
// In the order of the ids.
constexpr std::array<TypeRow, 13> kTypes = {{{"u8", 1},
                                             {"i8", 1},
                                             {"u16", 2},
                                             {"i16", 2},
                                             {"u32", 4},
                                             {"i32", 4},
                                             {"f32", 4},
                                             {"bool", 1},
                                             {"string", 0},
                                             {"array", 0},
                                             {"u64", 8},
                                             {"i64", 8},
                                             {"f64", 8}}};

// An array consists of its element type, its count and its elements.
constexpr size_t kCountAt = 4, kElementsAt = 12, kStringLengthBytes = 8;

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
GgufValue Scalar(GgufType type, T value) {
  GgufValue out{.type = type, .bytes = {}};
  AppendLe<T>(out.bytes, value);
  return out;
}

GgufValue ArrayStart(GgufType element, size_t count) {
  GgufValue out{.type = GgufType::kArray, .bytes = {}};
  AppendLe<uint32_t>(out.bytes, static_cast<uint32_t>(element));
  AppendLe<uint64_t>(out.bytes, count);
  return out;
}

template <class T>
GgufValue Array(GgufType element, std::span<const T> values) {
  GgufValue out = ArrayStart(element, values.size());
  out.bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return out;
}

template <class T>
std::optional<uint64_t> NotNegative(std::span<const std::byte> bytes) {
  const T value = LoadLe<T>(bytes);
  if (value < T{0}) return std::nullopt;
  return static_cast<uint64_t>(value);
}

// Reads the integer at the start of `bytes`. No value for other types and for negative numbers.
std::optional<uint64_t> LoadUint(GgufType type, std::span<const std::byte> bytes) {
  if (bytes.size() < GgufTypeBytes(type)) return std::nullopt;
  switch (type) {
    case GgufType::kU8:
      return LoadLe<uint8_t>(bytes);
    case GgufType::kU16:
      return LoadLe<uint16_t>(bytes);
    case GgufType::kU32:
      return LoadLe<uint32_t>(bytes);
    case GgufType::kU64:
      return LoadLe<uint64_t>(bytes);
    case GgufType::kI8:
      return NotNegative<int8_t>(bytes);
    case GgufType::kI16:
      return NotNegative<int16_t>(bytes);
    case GgufType::kI32:
      return NotNegative<int32_t>(bytes);
    case GgufType::kI64:
      return NotNegative<int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

// Reads the number or bool at the start of `bytes`; no value for other types.
std::optional<double> LoadNumber(GgufType type, std::span<const std::byte> bytes) {
  if (bytes.size() < GgufTypeBytes(type)) return std::nullopt;
  switch (type) {
    case GgufType::kI8:
      return LoadLe<int8_t>(bytes);
    case GgufType::kI16:
      return LoadLe<int16_t>(bytes);
    case GgufType::kI32:
      return LoadLe<int32_t>(bytes);
    case GgufType::kI64:
      return static_cast<double>(LoadLe<int64_t>(bytes));
    case GgufType::kF32:
      return LoadLe<float>(bytes);
    case GgufType::kF64:
      return LoadLe<double>(bytes);
    case GgufType::kBool:
      return LoadLe<uint8_t>(bytes) != 0 ? 1 : 0;
    default:
      break;
  }
  const std::optional<uint64_t> whole = LoadUint(type, bytes);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

}  // namespace

void AppendGgufString(std::string& out, std::string_view text) {
  AppendLe<uint64_t>(out, text.size());
  out += text;
}

std::string_view GgufTypeName(GgufType type) {
  const auto id = static_cast<size_t>(type);
  return id < kTypes.size() ? kTypes[id].name : "unknown";
}

size_t GgufTypeBytes(GgufType type) {
  const auto id = static_cast<size_t>(type);
  return id < kTypes.size() ? kTypes[id].bytes : 0;
}

GgufValue GgufValue::U16(uint16_t value) { return Scalar(GgufType::kU16, value); }
GgufValue GgufValue::U32(uint32_t value) { return Scalar(GgufType::kU32, value); }
GgufValue GgufValue::I32(int32_t value) { return Scalar(GgufType::kI32, value); }
GgufValue GgufValue::F32(float value) { return Scalar(GgufType::kF32, value); }
GgufValue GgufValue::Bool(bool value) {
  return Scalar(GgufType::kBool, static_cast<uint8_t>(value ? 1 : 0));
}

GgufValue GgufValue::String(std::string_view text) {
  GgufValue out{.type = GgufType::kString, .bytes = {}};
  AppendGgufString(out.bytes, text);
  return out;
}

GgufValue GgufValue::Strings(const std::vector<std::string>& texts) {
  GgufValue out = ArrayStart(GgufType::kString, texts.size());
  for (const std::string& text : texts) AppendGgufString(out.bytes, text);
  return out;
}

GgufValue GgufValue::I32s(std::span<const int32_t> values) { return Array(GgufType::kI32, values); }
GgufValue GgufValue::U32s(std::span<const uint32_t> values) {
  return Array(GgufType::kU32, values);
}
GgufValue GgufValue::U64s(std::span<const uint64_t> values) {
  return Array(GgufType::kU64, values);
}
GgufValue GgufValue::F32s(std::span<const float> values) { return Array(GgufType::kF32, values); }
GgufValue GgufValue::Bools(const std::vector<bool>& values) {
  GgufValue out = ArrayStart(GgufType::kBool, values.size());
  for (const bool value : values) out.bytes += value ? '\1' : '\0';
  return out;
}

std::optional<uint64_t> GgufValue::AsUint() const { return LoadUint(type, BytesOf(bytes)); }

std::optional<double> GgufValue::AsFloat() const {
  if (bytes.size() != GgufTypeBytes(type)) return std::nullopt;
  if (type == GgufType::kF32) return LoadLe<float>(BytesOf(bytes));
  if (type == GgufType::kF64) return LoadLe<double>(BytesOf(bytes));
  return std::nullopt;
}

std::optional<bool> GgufValue::AsBool() const {
  if (type != GgufType::kBool || bytes.size() != 1) return std::nullopt;
  return bytes[0] != 0;
}

std::optional<std::string_view> GgufValue::AsString() const {
  if (type != GgufType::kString || bytes.size() < kStringLengthBytes) return std::nullopt;
  return std::string_view(bytes).substr(kStringLengthBytes);
}

std::optional<GgufType> GgufValue::ElementType() const {
  if (type != GgufType::kArray || bytes.size() < kElementsAt) return std::nullopt;
  return static_cast<GgufType>(LoadLe<uint32_t>(BytesOf(bytes)));
}

uint64_t GgufValue::Count() const {
  if (!ElementType()) return 1;
  return LoadLe<uint64_t>(BytesOf(bytes).subspan(kCountAt));
}

std::optional<std::vector<uint64_t>> GgufValue::AsUints() const {
  if (const auto one = AsUint()) return std::vector{*one};
  const auto element = ElementType();
  const size_t size = element ? GgufTypeBytes(*element) : 0;
  if (size == 0) return std::nullopt;
  std::vector<uint64_t> out;
  std::span<const std::byte> rest = BytesOf(bytes).subspan(kElementsAt);
  for (; rest.size() >= size; rest = rest.subspan(size)) {
    const auto number = LoadUint(*element, rest);
    if (!number) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

std::optional<std::vector<std::string_view>> GgufValue::AsStrings() const {
  if (ElementType() != GgufType::kString) return std::nullopt;
  std::vector<std::string_view> out;
  std::string_view rest = std::string_view(bytes).substr(kElementsAt);
  while (rest.size() >= kStringLengthBytes) {
    const auto length = LoadLe<uint64_t>(BytesOf(rest));
    rest.remove_prefix(kStringLengthBytes);
    assert(length <= rest.size());
    out.push_back(rest.substr(0, length));
    rest.remove_prefix(out.back().size());
  }
  return out;
}

std::optional<std::vector<double>> GgufValue::AsNumbers() const {
  const auto element = ElementType();
  const GgufType kind = element.value_or(type);
  const size_t size = GgufTypeBytes(kind);
  if (size == 0) return std::nullopt;
  std::vector<double> out;
  std::span<const std::byte> rest = BytesOf(bytes).subspan(element ? kElementsAt : 0);
  for (; rest.size() >= size; rest = rest.subspan(size)) {
    const auto number = LoadNumber(kind, rest);
    if (!number) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

GgufValue GgufValue::First(uint64_t count) const {
  const GgufType element = ElementType().value_or(GgufType::kU8);
  assert(type == GgufType::kArray && GgufTypeBytes(element) > 0 && count <= Count());
  GgufValue out = ArrayStart(element, count);
  out.bytes += std::string_view(bytes).substr(kElementsAt, count * GgufTypeBytes(element));
  return out;
}

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const GgufEntry& entry) { return entry.key == key; });
  return at == entries_.end() ? nullptr : &at->value;
}

void GgufMetadata::Set(std::string_view key, GgufValue value) {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const GgufEntry& entry) { return entry.key == key; });
  if (at != entries_.end()) {
    at->value = std::move(value);
  } else {
    entries_.push_back({std::string(key), std::move(value)});
  }
}

void GgufMetadata::Remove(std::string_view key) {
  std::erase_if(entries_, [&](const GgufEntry& entry) { return entry.key == key; });
}

std::optional<uint64_t> GgufMetadata::Uint(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value == nullptr ? std::nullopt : value->AsUint();
}

std::optional<std::string_view> GgufMetadata::String(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value == nullptr ? std::nullopt : value->AsString();
}

std::string GgufMetadata::Architecture() const {
  return std::string(String("general.architecture").value_or(""));
}

}  // namespace moepack
