// Key-value metadata of a GGUF file. Values keep the file's own bytes, so that those we do not
// understand are copied exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moepack {

// The ids of the format (https://github.com/ggml-org/ggml, docs/gguf.md, gguf_metadata_value_type).
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
std::string_view GgufTypeName(GgufType type);  // "u8", ..., "string", "array"
// Bytes of one value; 0 for strings and arrays, which state their own length.
size_t GgufTypeBytes(GgufType type);

// A value: its type, and its little-endian bytes as they follow the type in a file. A string is a
// u64 length and its text; an array is a u32 element type, a u64 count and the elements. Parsed
// values are well-formed.
struct GgufValue {
  GgufType type = GgufType::kU8;
  std::string bytes;
  bool operator==(const GgufValue&) const = default;

  static GgufValue U16(uint16_t value);
  static GgufValue U32(uint32_t value);
  static GgufValue I32(int32_t value);
  static GgufValue F32(float value);
  static GgufValue Bool(bool value);
  static GgufValue String(std::string_view text);
  static GgufValue Strings(const std::vector<std::string>& texts);
  static GgufValue I32s(std::span<const int32_t> values);
  static GgufValue U32s(std::span<const uint32_t> values);
  static GgufValue U64s(std::span<const uint64_t> values);
  static GgufValue F32s(std::span<const float> values);
  static GgufValue Bools(const std::vector<bool>& values);

  // These give no value if the value has another type.
  std::optional<uint64_t> AsUint() const;  // any integer type, not negative
  std::optional<double> AsFloat() const;   // f32 or f64
  std::optional<bool> AsBool() const;
  std::optional<std::string_view> AsString() const;  // borrows
  // The element type and count of an array.
  std::optional<GgufType> ElementType() const;
  uint64_t Count() const;                                // 1 for a value that is not an array
  std::optional<std::vector<uint64_t>> AsUints() const;  // an array of integers, or one integer
  std::optional<std::vector<std::string_view>> AsStrings() const;  // borrows
  // an array of numbers, or one number; a bool is 0 or 1
  std::optional<std::vector<double>> AsNumbers() const;
  // The first `count` elements of an array. REQUIRES: numbers, at least as many.
  GgufValue First(uint64_t count) const;
};

// Appends a string in the format's form: its length as a u64, then its bytes.
void AppendGgufString(std::string& out, std::string_view text);

struct GgufEntry {
  std::string key;
  GgufValue value;
};

// Keys are unique and keep the order of the file or of insertion.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  // REQUIRES: the keys are distinct.
  explicit GgufMetadata(std::vector<GgufEntry> entries) : entries_(std::move(entries)) {}

  const GgufValue* Find(std::string_view key) const;
  // Replaces the value in place, or appends the key.
  void Set(std::string_view key, GgufValue value);
  void Remove(std::string_view key);
  const std::vector<GgufEntry>& entries() const { return entries_; }

  // These read a key in one step. They give no value if it is absent or has another type.
  std::optional<uint64_t> Uint(std::string_view key) const;
  std::optional<std::string_view> String(std::string_view key) const;
  // general.architecture, such as "qwen3moe"; "" if absent.
  std::string Architecture() const;

 private:
  std::vector<GgufEntry> entries_;
};

}  // namespace moepack
