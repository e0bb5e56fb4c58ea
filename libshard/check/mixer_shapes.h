// The sizes and shapes of layers that mix tokens in another way than attention that is the same in
// all layers: Mamba-2, linear attention, short convolutions, and attention whose heads differ.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/check/finding.h"
#include "libshard/check/promise.h"
#include "libshard/check/shapes.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/model.h"

namespace moepack {

// Adds what a config says about such layers to `promise`, whose layers have been read. Sizes of 0,
// and lists that are not as long as there are layers, become findings. kCorrupt for fields of a
// wrong type.
Status ReadMixers(const HfConfig& config, const Family& family, ModelPromise& promise,
                  std::vector<CheckFinding>& findings);
// The same for the metadata of a GGUF.
void ReadGgufMixers(const GgufMetadata& metadata, ModelPromise& promise);

// The shapes that the tensors of such layers have. Borrows the promise.
class MixerShapes {
 public:
  MixerShapes(const MoeModel& model, const ModelPromise& promise);
  // Gives no value for a tensor about which nothing is known. `leaf` is that of LeafOf.
  std::optional<Dims> Of(const ModelTensor& tensor, std::string_view leaf) const;

 private:
  // By the end of a tensor's name: "in_proj.weight", "A_log".
  using Table = std::map<std::string, std::vector<uint64_t>, std::less<>>;
  void AddMamba(const MambaPromise& mamba);
  void AddDelta(const DeltaPromise& delta);
  void AddKda(const KdaPromise& kda);
  std::optional<Dims> OfHeads(const HeadsPromise& heads, std::string_view module,
                              std::string_view leaf) const;

  const MoeModel& model_;
  const ModelPromise& promise_;
  Table mamba_, delta_, kda_, convolution_;
};

}  // namespace moepack
