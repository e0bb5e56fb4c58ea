// Format describes an element type. The table has one row per type, and nothing else in the code
// lists names, ids or block sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quant {

// Encodes rows. `values` fills whole blocks; `out` has exactly BytesFor(values) bytes. If
// `importance` is empty, `values` are any run of whole blocks. Otherwise it holds one weight per
// value of a row, and `values` are one or more whole rows that share it (types that do not use it
// ignore it). Any float is accepted: NaN and infinities give arbitrary bytes, but always the same
// ones.
using Encoder = void (*)(std::span<const float> values, std::span<const float> importance,
                         std::span<std::byte> out);
// Decodes whole blocks; `out` has room for all their values.
using Decoder = void (*)(std::span<const std::byte> blocks, std::span<float> out);

// An element type. Values are stored in blocks of `block_values` values and `block_bytes` bytes;
// plain types are blocks of one. Rows are never destroyed, so compare and pass them by address.
struct Format {
  std::string_view name;  // spelled as ggml prints it where ggml has the type: "bf16", "q4_K"
  std::string_view safetensors;  // dtype in a safetensors header, empty if the format has none
  int ggml_type;                 // ggml's id, -1 if it has none
  uint32_t block_values;
  uint32_t block_bytes;
  Encoder encode = nullptr;  // null: a type that can only be read or copied
  Decoder decode = nullptr;  // null: a type that can only be copied
  bool uses_importance = false;
  // ggml refuses to encode the type without importance; here a missing importance counts as 1.
  bool needs_importance = false;
  // The scalar forms of encode and decode. They are written to be read, and give the same bytes and
  // floats.
  Encoder encode_reference = nullptr;
  Decoder decode_reference = nullptr;

  // Returns the size of `values` values in bytes; no value if they do not fill whole blocks or the
  // product overflows.
  std::optional<uint64_t> BytesFor(uint64_t values) const;
};

// All types, in a fixed order.
std::span<const Format> AllFormats();

// Find a row; null if there is none. Names are case-insensitive.
const Format* FindFormat(std::string_view name);
const Format* FindSafetensorsFormat(std::string_view dtype);
const Format* FindGgmlFormat(int ggml_type);

}  // namespace quant
