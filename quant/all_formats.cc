#include <array>

#include "quant/format.h"

namespace quant {
namespace {

// Sources: the dtype table of the safetensors format (F4, F6_* and F8_E8M0 are its sub-byte and
// scale types) and ggml's type traits (docs/quant-formats.md of the formats we encode explains each
// block).
constexpr std::array kFormats = {
    Format{"f32", "F32", 0, 1, 4},          Format{"f16", "F16", 1, 1, 2},
    Format{"bf16", "BF16", 30, 1, 2},       Format{"f64", "F64", 28, 1, 8},
    Format{"f8_e4m3", "F8_E4M3", -1, 1, 1}, Format{"f8_e5m2", "F8_E5M2", -1, 1, 1},
    Format{"f8_e8m0", "F8_E8M0", -1, 1, 1}, Format{"f6_e2m3", "F6_E2M3", -1, 4, 3},
    Format{"f6_e3m2", "F6_E3M2", -1, 4, 3}, Format{"f4", "F4", -1, 2, 1},
    Format{"c64", "C64", -1, 1, 8},         Format{"bool", "BOOL", -1, 1, 1},
    Format{"u8", "U8", -1, 1, 1},           Format{"u16", "U16", -1, 1, 2},
    Format{"u32", "U32", -1, 1, 4},         Format{"u64", "U64", -1, 1, 8},
    Format{"i8", "I8", 24, 1, 1},           Format{"i16", "I16", 25, 1, 2},
    Format{"i32", "I32", 26, 1, 4},         Format{"i64", "I64", 27, 1, 8},
    Format{"q8_0", "", 8, 32, 34},          Format{"q6_K", "", 14, 256, 210},
    Format{"q5_K", "", 13, 256, 176},       Format{"q4_K", "", 12, 256, 144},
    Format{"q3_K", "", 11, 256, 110},       Format{"q2_K", "", 10, 256, 84},
    Format{"q4_0", "", 2, 32, 18},          Format{"q4_1", "", 3, 32, 20},
    Format{"q5_0", "", 6, 32, 22},          Format{"q5_1", "", 7, 32, 24},
    Format{"iq4_nl", "", 20, 32, 18},       Format{"iq4_xs", "", 23, 256, 136},
    Format{"mxfp4", "", 39, 32, 17},
};

char LowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (LowerAscii(a[i]) != LowerAscii(b[i])) return false;
  }
  return true;
}

}  // namespace

std::optional<uint64_t> Format::BytesFor(uint64_t values) const {
  if (values % block_values != 0) return std::nullopt;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(values / block_values, uint64_t{block_bytes}, &bytes))
    return std::nullopt;
  return bytes;
}

std::span<const Format> AllFormats() { return kFormats; }

const Format* FindFormat(std::string_view name) {
  for (const Format& format : kFormats) {
    if (SameIgnoringCase(format.name, name)) return &format;
  }
  return nullptr;
}

const Format* FindSafetensorsFormat(std::string_view dtype) {
  if (dtype.empty()) return nullptr;
  for (const Format& format : kFormats) {
    if (format.safetensors == dtype) return &format;
  }
  return nullptr;
}

const Format* FindGgmlFormat(int ggml_type) {
  if (ggml_type < 0) return nullptr;
  for (const Format& format : kFormats) {
    if (format.ggml_type == ggml_type) return &format;
  }
  return nullptr;
}

}  // namespace quant
