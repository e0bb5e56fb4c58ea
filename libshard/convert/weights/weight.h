// Weights as checkpoints store them: one tensor, or several that only together give numbers (codes
// and scales, packed integers with their zero points). They are read as rows of F32.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/row_reader.h"
#include "libshard/format/checkpoint.h"
#include "libshard/model/weight_config.h"

namespace moepack {

// Names for the same thing; a checkpoint's part is the first of them that it has.
using Leaves = std::span<const std::string_view>;

// The tensors of one weight by the last part of their names ("weight", "weight_scale_inv",
// "blocks"; "" for a name that is all module: "experts.gate_up_proj"). They may be in different
// files. Borrows the name and the entries.
class StoredWeight {
 public:
  explicit StoredWeight(std::string_view name) : name_(name) {}

  // False if there already is one with this leaf. Leaves that do not affect the weight's numbers
  // (scales of inputs and of the key/value cache) are accepted and ignored.
  bool Add(std::string_view leaf, const TensorEntry& entry);
  // The first of them that exists, or null.
  const TensorEntry* Find(Leaves leaves) const;
  const TensorEntry* Find(std::string_view leaf) const { return Find(Leaves(&leaf, 1)); }
  // The tensor with the weight's codes or numbers; null if only companions are there.
  const TensorEntry* main() const;
  // Any tensor of it. REQUIRES: one was added and not ignored.
  const TensorEntry& any() const { return *parts_.front().entry; }
  bool empty() const { return parts_.empty(); }
  std::string_view name() const { return name_; }  // without the leaf

 private:
  struct Part {
    std::string_view leaf;
    const TensorEntry* entry;
  };
  std::string_view name_;
  std::vector<Part> parts_;
};

// A decoded description of a weight: either `plain` says where its rows are, in `stored`, or
// `reader` makes them.
struct Weight {
  std::vector<uint64_t> shape;  // slowest dimension first, as the module sees it
  // The type that describes the numbers best: bf16 for scaled and packed ones, mxfp4 for MXFP4.
  const quant::Format* stored = nullptr;
  const TensorEntry* plain = nullptr;
  // Each row has the length of the shape's last dimension; there is one for every index of the
  // others.
  RowReaderPtr reader;
  const TensorEntry* main = nullptr;  // names the weight in errors
};

struct WeightSource {
  const Checkpoint& checkpoint;
  const WeightConfig& config;
  const WeightForm* one = nullptr;  // one of the config's forms; null: the first

  const WeightForm& form() const { return one == nullptr ? config : *one; }
  // "<path>: tensor <name>"
  std::string Where(const TensorEntry& entry) const;
};

// F32, F16, BF16; F8_E4M3 and I8 with scales; packed integers (compressed-tensors, GPTQ, AWQ,
// AutoRound); MXFP4; NVFP4. Of several forms in the config, the weight has the one that its tensors
// fit. kUnsupported, with their names, for other numbers, and for a weight that fits two forms with
// different values; kCorrupt for companions that are missing, have no weight, or do not fit. Reads
// no tensor data but weight_shape (16 bytes at most).
Result<Weight> ReadWeight(const WeightSource& source, const StoredWeight& stored);

// Finds a companion without which the weight has no meaning; kCorrupt, naming it, if it is missing.
Result<const TensorEntry*> RequirePart(const WeightSource& source, const StoredWeight& stored,
                                       Leaves leaves);
inline Result<const TensorEntry*> RequirePart(const WeightSource& source,
                                              const StoredWeight& stored, std::string_view leaf) {
  return RequirePart(source, stored, Leaves(&leaf, 1));
}
// kCorrupt unless the entry has this shape.
Status CheckPartShape(const WeightSource& source, const TensorEntry& entry,
                      const std::vector<uint64_t>& expected);
// kCorrupt unless the entry's type is one of these.
Status CheckPartType(const WeightSource& source, const TensorEntry& entry,
                     std::initializer_list<std::string_view> expected);

}  // namespace moepack
