// Works out the shape that a tensor must have, from the sizes in the config and the tensor's role
// and name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/check/promise.h"
#include "libshard/model/model.h"

namespace moepack {

// Dimensions, slowest first; 0 means unknown and fits everything. `why` names the fields they come
// from. Linear layers are [out, in]; quantized ones keep several values in one element of the last
// dimension.
struct Dims {
  std::vector<uint64_t> sizes;
  const char* why = "";
  bool operator==(const Dims&) const = default;
};

struct ShapeQuestion {
  const ModelTensor& tensor;
  const std::string& name;
  std::string_view leaf;      // see LeafOf
  uint32_t expert_count = 0;  // of its layer
};

class ExpectedShapes {
 public:
  // With `latent`, attention is latent whatever the config says. Borrows the promise.
  ExpectedShapes(const ModelPromise& promise, bool latent) : promise_(promise), latent_(latent) {}

  // Gives no value for a tensor about which nothing is known.
  std::optional<Dims> Of(const ShapeQuestion& question) const;

 private:
  const ModelPromise& promise_;
  const bool latent_;
};

}  // namespace moepack
