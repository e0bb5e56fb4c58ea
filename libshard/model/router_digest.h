// A digest by which statistics identify the model that they were measured on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/digest.h"
#include "libshard/base/result.h"
#include "libshard/model/family.h"
#include "libshard/model/model.h"

namespace moepack {

// The digest itself: XXH3-128 of the router matrices of all layers but those for multi-token
// prediction, as F32, in layer order. Equal values give the same digest whatever float type stores
// them.
class RouterHash {
 public:
  // `bytes` are a whole matrix. REQUIRES: the format has a decoder.
  void Add(const quant::Format& format, std::span<const std::byte> bytes);
  std::string Hex() const { return digest_.Hex(); }

 private:
  Xxh3 digest_;
};

// Whether a tensor matched by this rule is the matrix of a router, and not its bias.
bool IsRouterMatrix(const TensorRule& rule, std::string_view leaf);

struct RouterTensor {
  SourceFile file;
  TensorEntry entry;
};
// By layer.
using RouterTensors = std::map<uint32_t, RouterTensor>;

// Reads the routers. "" if they cannot be read here: files on another machine, and types whose
// values other tensors scale.
Result<std::string> RouterDigest(const RouterTensors& routers);
// The same for a model; also "" for a checkpoint with only names or promises, and if a layer has no
// router or two.
Result<std::string> RouterDigest(const MoeModel& model);

}  // namespace moepack
