// A checkpoint whose tensors are classified: each has its part, layer, expert and role, and all
// experts are complete.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libshard/format/checkpoint.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"

namespace moepack {

struct ModelTensor {
  uint32_t index = 0;  // into Checkpoint::tensors()
  Part part = Part::kTrunk;
  bool mtp = false;
  std::optional<uint8_t> axis = {};  // of the experts, in packed experts and router tensors
  const TensorRule* rule = nullptr;
  std::string_view leaf;
  std::optional<uint32_t> layer = {};
  std::optional<uint32_t> expert = {};  // explicit experts only

  bool packed_expert() const { return part == Part::kExpert && !expert; }
};

// A layer with routed experts. Ids are only meaningful within it.
struct MoeLayer {
  uint32_t layer = 0;
  uint32_t expert_count = 0;
  uint32_t top_k = 0;  // 0: unknown
  uint64_t expert_bytes =
      0;  // bytes of one expert (of the largest, if they differ), all its tensors
  bool mtp = false;
};

struct ModelOptions {
  std::string family_file;     // --family, "" for the built-in list
  std::string config_file;     // --config, "" for config.json beside the checkpoint
  bool sample_weights = true;  // read what Version needs; false if nobody asks for it
};

// The parts of a model, after each was read and checked against the others. Code that only reads a
// model uses MoeModel.
struct ModelParts {
  Checkpoint checkpoint;
  std::shared_ptr<const Family> family;
  ModelConfig config;
  bool has_config = false;
  fs::path config_path;
  std::string config_text, config_sha256;
  std::string sample_sha256;         // of pages of the weights; "" if none were read
  std::vector<ModelTensor> tensors;  // in the order of Checkpoint::tensors()
  std::vector<MoeLayer> layers;      // ascending
  std::vector<std::string> warnings;
  Routing routing;
};

class MoeModel {
 public:
  // REQUIRES: the parts belong together.
  explicit MoeModel(ModelParts parts) : parts_(std::move(parts)) {}

  // Opens, classifies and checks: a rule matches every tensor, every expert of a layer exists with
  // the same tensors, expert axes are as long as the layer's expert count, and the count is as
  // config.json says. With a names-only checkpoint the shape checks are skipped. The config of a
  // GGUF model is its metadata, and its family is GgufFamily() unless another is named; --config is
  // refused for it.
  static Result<MoeModel> Open(const Source& source, const ModelOptions& options = {});
  // The same for a path on this machine.
  static Result<MoeModel> Open(const fs::path& source, const ModelOptions& options = {});

  // The same for a checkpoint that is already open.
  static Result<MoeModel> Of(Checkpoint checkpoint, const ModelOptions& options = {});

  const Checkpoint& checkpoint() const { return parts_.checkpoint; }
  const Family& family() const { return *parts_.family; }
  const ModelConfig& config() const { return parts_.config; }
  bool has_config() const { return parts_.has_config; }
  // The file from which config() was read: config.json, or the first file of a GGUF model.
  const fs::path& config_path() const { return parts_.config_path; }
  // config.json as it was read; "" without one.
  const std::string& config_text() const { return parts_.config_text; }
  // In the order of Checkpoint::tensors().
  const std::vector<ModelTensor>& tensors() const { return parts_.tensors; }
  const TensorEntry& entry(const ModelTensor& tensor) const {
    return checkpoint().tensors()[tensor.index];
  }
  // Ascending by layer; at least one.
  const std::vector<MoeLayer>& layers() const { return parts_.layers; }
  // Null for a layer without experts, and for no layer.
  const MoeLayer* FindLayer(std::optional<uint32_t> layer) const;
  // The most experts that a decoder layer has.
  uint32_t max_experts() const;
  const std::vector<std::string>& warnings() const { return parts_.warnings; }

  // How routers select and weigh experts, according to config or metadata, family and tensors.
  const Routing& routing() const { return parts_.routing; }

  // True if the checkpoint has a head with other bytes than its embedding, whatever the config says
  // about tying them. Where both tables are there, they are read up to the first difference, once
  // for all copies of the model; the buffers are small. False without tensor data.
  Result<bool> HasOwnHead() const;

  // Calls Checkpoint::ForgetTensors() and frees tensors(). Layers, config and version are kept.
  void ForgetTensors();

  // Returns a digest of 16 hexadecimal digits over `revision`, config, the headers of all files and
  // sixteen pages of each file's weights. The pages tell fine-tunes of one model apart without
  // reading it whole.
  std::string Version(const std::string& revision) const;

 private:
  struct OwnHead {
    std::mutex mutex;
    std::optional<bool> known;
  };

  ModelParts parts_;
  std::shared_ptr<OwnHead> own_head_ = std::make_shared<OwnHead>();
};

// Counts weights as model cards do: packed integers are counted unpacked; scales and index tables
// are not counted.
struct ParameterCount {
  uint64_t total = 0;  // without multi-token-prediction blocks and towers of other modalities
  // What one token uses: all of the trunk and top_k experts per layer; 0 if top_k is unknown. Model
  // cards often leave out the tables below.
  uint64_t active = 0;
  // Both are included in `total` and `active`: the table from which a token takes one row (0 if it
  // is also the head), and the matrix that produces the logits.
  uint64_t input_embedding = 0, head = 0;
  uint64_t mtp = 0, other_modalities = 0;
};
// All zero for a names-only checkpoint.
ParameterCount CountParameters(const MoeModel& model);

}  // namespace moepack
