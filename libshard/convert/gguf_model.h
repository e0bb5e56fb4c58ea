// A model in GGUF form, whatever its source: metadata, and a list of tensors, each with the source
// rows that it is made from. Nothing is cut or encoded yet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/format/output_file.h"
#include "libshard/model/model.h"

namespace moepack {

struct GgufTensor {
  std::string name;             // llama.cpp's
  std::vector<uint64_t> shape;  // slowest dimension first; axis 0 is the expert axis, if any
  const quant::Format* stored = nullptr;  // the type of the sources
  const quant::Format* type = nullptr;    // the type to write; `stored` until a recipe decides
  bool fixed = false;  // F32 under every recipe (norms, biases, routers; converted sources only)
  Part part = Part::kTrunk;
  std::optional<uint32_t> layer;
  uint32_t expert_count = 0;  // length of axis 0 if it is the expert axis, otherwise 0
  // Joined, they are the tensor in its `stored` type, row by row. With experts, each expert has
  // equally many ranges, in ascending id. Their `order` must ascend (see OrderOf).
  std::vector<SourceRange> sources;
  // The rows that `reader` makes, if the sources do not simply hold them in `stored`, which is then
  // the plain type nearest to them. Empty without a reader.
  std::vector<RowRange> rows;
  std::shared_ptr<const RowReader> reader;
  bool repack = true;   // keep the source's own grid if the reader can (RowReader::Repack)
  std::string literal;  // F32 bytes of a tensor that is not in any source
  std::string source_tensor;
  std::shared_ptr<const Importance> importance;

  uint64_t row_values() const { return shape.empty() ? 1 : shape.back(); }
  uint64_t elements() const;
  // True if the blocks of `to` keep the source's grid.
  bool KeepsGrid(const quant::Format* to) const;
  // The size when written as `type`. REQUIRES: rows are whole blocks of it.
  uint64_t bytes() const;
};

// The `order` of the ranges of an expert (0 without experts) of tensor number `tensor`.
// Experts take the lower 24 bits.
inline uint64_t OrderOf(uint64_t tensor, uint32_t expert) { return tensor << 24 | expert; }

struct GgufModel {
  GgufMetadata metadata;  // of the whole model; no split keys, no general.alignment
  std::vector<GgufTensor> tensors;
  std::vector<std::string> warnings;  // things that are lost or may surprise
  std::vector<std::string> notes;     // things that are usual
  // Announced blocks that the source lacks or that are not what the keys say: warnings for the
  // user, which --strict refuses.
  std::vector<std::string> faults;
  std::optional<Error> no_tokenizer;  // why there is none (Part::kTokenizerIfUsable)
  std::string architecture() const { return metadata.Architecture(); }
};

struct ConvertOptions {
  std::string pre;  // --pre: tokenizer.ggml.pre instead of the recognised one
  bool mtp = true;  // false (--no-mtp): leaves out blocks for multi-token prediction
  // kKeys makes only the architecture's keys, which need config.json alone; it shows whether GGUF
  // can hold the model before its tensors are there. kTensors makes only the tensors. kNoTokenizer
  // makes all but the tokenizer's keys, for a config without a tokenizer. kTokenizerIfUsable makes
  // the whole for running the model, which may need only token ids: a tokenizer that is missing or
  // not supported is left out, and GgufModel::no_tokenizer says why; blocks for multi-token
  // prediction are not run and may be missing.
  enum class Part : uint8_t {
    kWhole,
    kKeys,
    kTensors,
    kNoTokenizer,
    kTokenizerIfUsable,
  } part = Part::kWhole;
};

// Returns the GGUF view of a model. A GGUF source provides its own tensors and keys, and is
// kCorrupt if it lacks a block that its keys announce and llama.cpp needs, or any tensor that
// list-tensors --check misses; a safetensors source goes through the family's converter
// (kUnsupported without one). Readers in the result borrow the model's checkpoint.
Result<GgufModel> ToGguf(const MoeModel& model, const ConvertOptions& options);

// Converts Hugging Face checkpoints to GGUF, by the rules of its family (libshard/families/).
// Names, keys and rules are those of llama.cpp's converter (docs/families.md).

struct GgufConverter {
  std::string_view family;        // Family::name
  std::string_view architecture;  // general.architecture
  Result<GgufModel> (*convert)(const MoeModel& model, const ConvertOptions& options);
};

std::span<const GgufConverter> AllConverters();
// Returns null when the family has no converter.
const GgufConverter* FindConverter(std::string_view family);

// Checks the tensors of a checkpoint as conversion would, whether GGUF is wanted or not. kCorrupt
// for a missing or misshapen tensor, even if it is missing from all layers. Ok for families without
// a converter, for models that conversion does not support, and without tensors.
Status CheckByConversion(const MoeModel& model);

}  // namespace moepack
