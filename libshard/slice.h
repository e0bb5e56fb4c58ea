// From plan and model to output files: for every output tensor, the source ranges that make it, in
// order. No bytes move.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/expert_ids.h"
#include "libshard/model.h"
#include "libshard/plan.h"
#include "libshard/result.h"

namespace shard {

// `bytes` bytes at `offset` of source file `file`.
struct SourceRange {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // Outputs whose ranges ascend by (order, file, offset) read the ranges they have in common once.
  uint64_t order = 0;
  bool operator==(const SourceRange&) const = default;
};

// How much each column of a matrix matters to its quantizer: the mean square of its inputs.
struct Importance {
  uint64_t row_values = 0;
  // One row for all, or one per slice of the slowest dimension: per expert, in ascending id.
  std::vector<float> values;
  std::string digest;  // of the values; equal digests give equal bytes
  std::span<const float> Row(uint64_t slice) const {
    const uint64_t row = values.size() == row_values ? 0 : slice;
    return std::span(values).subspan(row * row_values, row_values);
  }
};

class RowReader;

// The bytes of a tensor are not those of its sources: its rows are decoded to F32 and encoded
// again. Every source range then holds whole rows.
struct Encoding {
  const quant::Format* from = nullptr;  // has a decoder
  const quant::Format* to = nullptr;    // has an encoder
  uint64_t row_values = 0;
  // Rows with one row of importance: those of an expert, or of one slice of another tensor with
  // three dimensions. 0: all rows.
  uint64_t rows_per_slice = 0;
  std::shared_ptr<const Importance> importance;  // null: none
  // Makes the rows, where they are not simply in `from` (row_reader.h); the sources then count
  // rows.
  std::shared_ptr<const RowReader> reader;
  bool repack = false;  // by RowReader::Repack, without a detour over F32
};

struct OutputTensor {
  TensorEntry entry;  // name, dtype, shape, bytes; `offset` is from the start of the output file
  std::vector<SourceRange> sources;  // concatenated they are the tensor
  int layer = -1;
  ExpertIds
      experts;  // ids held, in their order along the expert axis; empty for tensors without experts
  std::string source_tensor;                 // the name in the source, "" when it is the same
  std::shared_ptr<const Encoding> encoding;  // null: the sources' bytes as they are
  bool inspected = false;  // copied values of a plain float type are looked through for NaN
  std::string literal;     // the bytes of a tensor that stands in no source

  const std::string& SourceName() const {
    return source_tensor.empty() ? entry.name : source_tensor;
  }
  void SetSourceName(const std::string& name) { source_tensor = name == entry.name ? "" : name; }
};

// kHead (metadata without tensors) and kRouters (whole routers) exist in GGUF distributions only.
enum class Role : uint8_t { kHead, kTrunk, kRouters, kGroup, kOverlay, kRemainder };
std::string_view RoleName(Role role);  // "head", "trunk", "routers", "group", ...

struct OutputFile {
  std::string path;  // relative to the distribution, '/' between parts
  Role role = Role::kTrunk;
  int group = -1;      // for kGroup
  std::string prefix;  // bytes in front of the tensors: the container's header
  std::vector<OutputTensor> tensors;
  uint64_t size = 0;  // of the whole file
};

// Which parts of a distribution to write. Default: all.
struct PartSelection {
  bool all = true;
  bool trunk = false, overlay = false, assets = false, remainder = false;
  std::vector<uint32_t> groups;
  bool WantsTrunk() const { return all || trunk; }
  bool WantsOverlay() const { return all || overlay; }
  bool WantsAssets() const { return all || assets; }
  bool WantsGroup(uint32_t group) const;
};
// "trunk", "group:1", "overlay", "assets", "remainder", several with commas.
Result<PartSelection> ParseParts(const std::vector<std::string>& texts, size_t groups);

struct SliceOptions {
  PartSelection parts;
  bool keep_remainder = false;  // with all parts; among selected ones it is named
  uint64_t max_part_size = 0;   // bytes; 0: one file per part. A tensor is never cut.
};

// The files of a safetensors distribution, trunk first, then groups, overlay, remainder; tensors in
// source order.
Result<std::vector<OutputFile>> SliceSafetensors(const MoeModel& model, const Plan& plan,
                                                 const SliceOptions& options);

// The ranges of `tensor` that hold the experts `ids` along `axis`: one per outer index and expert,
// in the order of `ids`. REQUIRES: the axis length is a multiple of `experts`, every id < experts.
std::vector<SourceRange> SliceAxis(const TensorEntry& tensor, int axis, uint32_t experts,
                                   const ExpertIds& ids);

// Sets entry.offset, prefix and size of a file whose tensors have names, types, shapes and bytes;
// data starts congruent to the first source range modulo 4096, so that a file system with shared
// extents can share them.
void LayOutSafetensors(OutputFile& file, const std::map<std::string, std::string>& metadata);

}  // namespace shard
