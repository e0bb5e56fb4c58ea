// Format: one row per element type, the only place where names, ids and block geometry are written
// down.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quant {

// An element type. Values are stored in blocks of `block_values` values and `block_bytes` bytes;
// plain types are blocks of one. Rows live for the whole program: compare and pass them by address.
struct Format {
  std::string_view name;  // spelled as ggml prints it where ggml has the type: "bf16", "q4_K"
  std::string_view safetensors;  // dtype in a safetensors header, empty if the format has none
  int ggml_type;                 // ggml's id, -1 if it has none
  uint32_t block_values;
  uint32_t block_bytes;

  // Bytes of `values` values; none when they do not fill whole blocks or the product overflows.
  std::optional<uint64_t> BytesFor(uint64_t values) const;
  double BitsPerValue() const { return 8.0 * block_bytes / block_values; }
};

// The list, in a fixed order.
std::span<const Format> AllFormats();

// Null when there is no such row. Names are compared without regard to case.
const Format* FindFormat(std::string_view name);
const Format* FindSafetensorsFormat(std::string_view dtype);
const Format* FindGgmlFormat(int ggml_type);

}  // namespace quant
