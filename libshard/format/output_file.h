// A file to be written: its header, its tensors, and for each tensor the source ranges it is made
// from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/text/expert_ids.h"
#include "libshard/format/tensor.h"
#include "quant/format.h"

namespace moepack {

// `bytes` bytes at `offset` of source file `file`.
struct SourceRange {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // If the ranges of several outputs ascend by (order, file, offset), a range that they share is
  // read once.
  uint64_t order = 0;
  // Its bytes [skip, skip + count).
  SourceRange Part(uint64_t skip, uint64_t count) const {
    return {file, offset + skip, count, order};
  }
  bool operator==(const SourceRange&) const = default;
};

// Rows [first, first + count) of a RowReader, which knows the bytes that they are made from.
struct RowRange {
  uint64_t first = 0, count = 0;
  uint64_t order = 0;  // as SourceRange::order
  // Its rows [skip, skip + part_count).
  RowRange Part(uint64_t skip, uint64_t part_count) const {
    return {first + skip, part_count, order};
  }
  bool operator==(const RowRange&) const = default;
};

// How much each column of a matrix matters to the quantizer: the mean square of its input.
struct Importance {
  uint64_t row_values = 0;
  // One row for all, or one per slice of the slowest dimension (per expert, in ascending id).
  std::vector<float> values;
  std::string digest;  // of the values; equal digests give equal bytes
  std::span<const float> Row(uint64_t slice) const {
    const uint64_t row = values.size() == row_values ? 0 : slice;
    return std::span(values).subspan(row * row_values, row_values);
  }
};

class RowReader;

// Describes how the bytes of a tensor are made if they are not those of its sources: rows are
// decoded to F32 and encoded. Every source range then holds whole rows.
struct Encoding {
  const quant::Format* from = nullptr;  // has a decoder
  const quant::Format* to = nullptr;    // has an encoder
  uint64_t row_values = 0;
  // How many rows share a row of importance: those of one expert, or of one slice of any other
  // three-dimensional tensor. 0: all rows share one.
  uint64_t rows_per_slice = 0;
  std::shared_ptr<const Importance> importance;  // null: none
  // Makes the rows (OutputTensor::rows) if the sources do not simply hold them in `from`
  // (row_reader.h).
  std::shared_ptr<const RowReader> reader;
  bool repack = false;  // by RowReader::Repack, without a detour over F32
};

struct OutputTensor {
  TensorEntry entry;  // name, dtype, shape, bytes; `offset` is from the start of the output file
  // Concatenated they are the tensor. It has `rows` if its encoding has a reader that makes them,
  // otherwise `sources`.
  std::vector<SourceRange> sources;
  std::vector<RowRange> rows;
  std::optional<uint16_t> layer;  // below kMaxLayers
  bool inspected = false;         // copied values of a plain float type are checked for NaN
  // The ids of the experts that the tensor holds, in order along the expert axis; empty without
  // experts.
  ExpertIds expert_ids;
  // Those of them whose values are not the source's because a refit produced them.
  FewExpertIds derived;
  std::shared_ptr<const std::string> source_name;  // null: that of the entry
  std::shared_ptr<const Encoding> encoding;        // null: the sources' bytes as they are
  std::shared_ptr<const std::string> literal;      // the bytes of a tensor that is in no source

  const std::string& SourceName() const { return source_name ? *source_name : entry.name; }
  void SetSourceName(const std::string& name) {
    source_name = name == entry.name ? nullptr : std::make_shared<const std::string>(name);
  }
};

// kHead (metadata without tensors) and kRouters (whole routers) exist in GGUF distributions only.
enum class Role : uint8_t { kHead, kTrunk, kRouters, kGroup, kOverlay, kRemainder };
std::string_view RoleName(Role role);  // "head", "trunk", "routers", "group", ...

// Files with role kOverlay are below overlays/<version>/. Returns the version of such a path, and
// "" for other roles and paths.
std::string OverlayVersionOf(Role role, std::string_view path);
// Returns "overlays/<version>".
std::string OverlayDirectory(std::string_view version);

struct OutputFile {
  std::string path;  // relative to the distribution, '/' between parts
  Role role = Role::kTrunk;
  std::optional<uint32_t> group;  // for kGroup
  std::string prefix;             // bytes in front of the tensors: the container's header
  std::vector<OutputTensor> tensors;
  uint64_t size = 0;  // of the whole file
};

// Returns the paths, in the same order.
std::vector<std::string> PathsOf(const std::vector<OutputFile>& files);

}  // namespace moepack
