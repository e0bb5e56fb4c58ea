#include <array>

#include "quant/format.h"
#include "quant/grids/iq2_s.h"
#include "quant/grids/iq2_xs.h"
#include "quant/grids/iq2_xxs.h"
#include "quant/grids/iq3_s.h"
#include "quant/grids/iq3_xxs.h"
#include "quant/k_quants/q2_k.h"
#include "quant/k_quants/q3_k.h"
#include "quant/k_quants/q4_k.h"
#include "quant/k_quants/q5_k.h"
#include "quant/k_quants/q6_k.h"
#include "quant/legacy/q4_0.h"
#include "quant/legacy/q4_1.h"
#include "quant/legacy/q5_0.h"
#include "quant/legacy/q5_1.h"
#include "quant/legacy/q8_0.h"
#include "quant/plain.h"
#include "quant/tables/iq4_nl.h"
#include "quant/tables/iq4_xs.h"
#include "quant/tables/mxfp4.h"
#include "quant/tables/nvfp4.h"
#include "quant/ternary/iq1_m.h"
#include "quant/ternary/iq1_s.h"
#include "quant/ternary/tq1_0.h"
#include "quant/ternary/tq2_0.h"

namespace quant {
namespace {

// A type of one value per block, with its name in safetensors.
constexpr Format Plain(std::string_view name, std::string_view safetensors, int ggml_type,
                       uint32_t bytes) {
  return {name, safetensors, ggml_type, 1, bytes};
}

// A type of ggml that we can only copy; the row has its block size and nothing else.
constexpr Format CopyOnly(std::string_view name, int ggml_type, uint32_t block_values,
                          uint32_t block_bytes) {
  return {name, "", ggml_type, block_values, block_bytes};
}

// A type with only a scalar form.
constexpr Format With(Format format, Encoder encode, Decoder decode) {
  format.encode = format.encode_reference = encode;
  format.decode = format.decode_reference = decode;
  return format;
}

// Adds kernels to a type.
constexpr Format Faster(Format format, Encoder encode, Decoder decode) {
  format.encode = encode;
  format.decode = decode;
  return format;
}

template <class Block>
constexpr Format Blocks(std::string_view name, int ggml_type, Encoder encode, Decoder decode) {
  return With(CopyOnly(name, ggml_type, Block::kValues, sizeof(Block)), encode, decode);
}

constexpr Format UsingImportance(Format format) {
  format.uses_importance = true;
  return format;
}

constexpr Format NeedingImportance(Format format) {
  format.needs_importance = true;
  return UsingImportance(format);
}

// Sources: the dtype table of the safetensors format (F4, F6_* and F8_E8M0 are its sub-byte and
// scale types) and ggml's type traits. docs/quant-formats.md explains each block we encode.
constexpr std::array kFormats = {
    With(Plain("f32", "F32", 0, 4), EncodeF32Ref, DecodeF32Ref),
    Faster(With(Plain("f16", "F16", 1, 2), EncodeF16Ref, DecodeF16Ref), EncodeF16, DecodeF16),
    Faster(With(Plain("bf16", "BF16", 30, 2), EncodeBf16Ref, DecodeBf16Ref), EncodeBf16,
           DecodeBf16),
    Faster(With(Plain("f64", "F64", 28, 8), nullptr, DecodeF64Ref), nullptr, DecodeF64),
    Faster(With(Plain("f8_e4m3", "F8_E4M3", -1, 1), nullptr, DecodeF8E4M3Ref), nullptr,
           DecodeF8E4M3),
    Faster(With(Plain("f8_e5m2", "F8_E5M2", -1, 1), nullptr, DecodeF8E5M2Ref), nullptr,
           DecodeF8E5M2),
    Plain("f8_e8m0", "F8_E8M0", -1, 1),
    Format{"f6_e2m3", "F6_E2M3", -1, 4, 3},
    Format{"f6_e3m2", "F6_E3M2", -1, 4, 3},
    Format{"f4", "F4", -1, 2, 1},
    Plain("c64", "C64", -1, 8),
    Plain("bool", "BOOL", -1, 1),
    Plain("u8", "U8", -1, 1),
    Plain("u16", "U16", -1, 2),
    Plain("u32", "U32", -1, 4),
    Plain("u64", "U64", -1, 8),
    Plain("i8", "I8", 24, 1),
    Plain("i16", "I16", 25, 2),
    Plain("i32", "I32", 26, 4),
    Plain("i64", "I64", 27, 8),
    Faster(Blocks<BlockQ80>("q8_0", 8, EncodeQ80Ref, DecodeQ80Ref), EncodeQ80, DecodeQ80),
    Faster(UsingImportance(Blocks<BlockQ6K>("q6_K", 14, EncodeQ6KRef, DecodeQ6KRef)), EncodeQ6K,
           DecodeQ6K),
    Faster(UsingImportance(Blocks<BlockQ5K>("q5_K", 13, EncodeQ5KRef, DecodeQ5KRef)), EncodeQ5K,
           DecodeQ5K),
    Faster(UsingImportance(Blocks<BlockQ4K>("q4_K", 12, EncodeQ4KRef, DecodeQ4KRef)), EncodeQ4K,
           DecodeQ4K),
    Faster(UsingImportance(Blocks<BlockQ3K>("q3_K", 11, EncodeQ3KRef, DecodeQ3KRef)), EncodeQ3K,
           DecodeQ3K),
    Faster(UsingImportance(Blocks<BlockQ2K>("q2_K", 10, EncodeQ2KRef, DecodeQ2KRef)), EncodeQ2K,
           DecodeQ2K),
    Faster(UsingImportance(Blocks<BlockQ40>("q4_0", 2, EncodeQ40Ref, DecodeQ40Ref)), EncodeQ40,
           DecodeQ40),
    Faster(UsingImportance(Blocks<BlockQ41>("q4_1", 3, EncodeQ41Ref, DecodeQ41Ref)), EncodeQ41,
           DecodeQ41),
    Faster(UsingImportance(Blocks<BlockQ50>("q5_0", 6, EncodeQ50Ref, DecodeQ50Ref)), EncodeQ50,
           DecodeQ50),
    Faster(UsingImportance(Blocks<BlockQ51>("q5_1", 7, EncodeQ51Ref, DecodeQ51Ref)), EncodeQ51,
           DecodeQ51),
    Faster(UsingImportance(Blocks<BlockIq4Nl>("iq4_nl", 20, EncodeIq4NlRef, DecodeIq4NlRef)),
           EncodeIq4Nl, DecodeIq4Nl),
    Faster(UsingImportance(Blocks<BlockIq4Xs>("iq4_xs", 23, EncodeIq4XsRef, DecodeIq4XsRef)),
           EncodeIq4Xs, DecodeIq4Xs),
    Faster(Blocks<BlockMxfp4>("mxfp4", 39, EncodeMxfp4Ref, DecodeMxfp4Ref), EncodeMxfp4,
           DecodeMxfp4),
    Faster(NeedingImportance(Blocks<BlockIq2Xxs>("iq2_xxs", 16, EncodeIq2XxsRef, DecodeIq2XxsRef)),
           EncodeIq2Xxs, DecodeIq2Xxs),
    Faster(NeedingImportance(Blocks<BlockIq2Xs>("iq2_xs", 17, EncodeIq2XsRef, DecodeIq2XsRef)),
           EncodeIq2Xs, DecodeIq2Xs),
    Faster(UsingImportance(Blocks<BlockIq3Xxs>("iq3_xxs", 18, EncodeIq3XxsRef, DecodeIq3XxsRef)),
           EncodeIq3Xxs, DecodeIq3Xxs),
    NeedingImportance(
        Faster(UsingImportance(Blocks<BlockIq1S>("iq1_s", 19, EncodeIq1SRef, DecodeIq1SRef)),
               EncodeIq1S, DecodeIq1S)),
    Faster(UsingImportance(Blocks<BlockIq3S>("iq3_s", 21, EncodeIq3SRef, DecodeIq3SRef)),
           EncodeIq3S, DecodeIq3S),
    Faster(UsingImportance(Blocks<BlockIq2S>("iq2_s", 22, EncodeIq2SRef, DecodeIq2SRef)),
           EncodeIq2S, DecodeIq2S),
    Faster(UsingImportance(Blocks<BlockIq1M>("iq1_m", 29, EncodeIq1MRef, DecodeIq1MRef)),
           EncodeIq1M, DecodeIq1M),
    Faster(Blocks<BlockTq10>("tq1_0", 34, EncodeTq10Ref, DecodeTq10Ref), EncodeTq10, DecodeTq10),
    Faster(Blocks<BlockTq20>("tq2_0", 35, EncodeTq20Ref, DecodeTq20Ref), EncodeTq20, DecodeTq20),
    Faster(Blocks<BlockNvfp4>("nvfp4", 40, EncodeNvfp4Ref, DecodeNvfp4Ref), EncodeNvfp4,
           DecodeNvfp4),
    CopyOnly("q1_0", 41, 128, 18),
    CopyOnly("q2_0", 42, 64, 18),
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
