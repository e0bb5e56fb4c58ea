// Encodes a model layer by layer with error feedback on calibration text, so that the same types in
// the same blocks are closer to the model. docs/calibration.md explains the method.
//
// Two streams run through each layer: that of the model, and that of the layers that are already
// encoded. The inputs of a matrix come from the second one, and what its products should be from
// the first one, so that a layer also corrects what earlier ones got wrong. Of a group, both are
// those of its node: with its experts, refitted, and the trunk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/calibrate/expert_exchange.h"
#include "runtime-shim/calibrate/product_watch.h"
#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// What determines the bytes, besides model, types and text.
struct CalibrateOptions {
  uint64_t tokens = 0;           // at most about this many per bucket; 0: all
  uint32_t context = 512;        // of a window
  uint32_t fold = 8;             // one in this many sessions or windows is held out
  uint64_t least_tokens = 32;    // a matrix with fewer is encoded without feedback
  double shrink = 1;             // of the moments of experts with few tokens
  std::string executor = "cpu";  // of the model and the moments; the run opens it
  uint64_t memory = 4ull << 30;  // bytes, about; does not affect the values

  std::string scratch = "";  // directory for what does not fit in memory
  uint32_t jobs = 0;         // threads; 0: one per core
};

// The embedding, which is encoded with the first layer.
inline constexpr const char* kEmbeddingTensor = "token_embd.weight";

// The text that a calibration takes. Errors are those of MakeCalibration.
Result<Calibration> CalibrationTextOf(std::span<const TokenSession> sessions,
                                      const CalibrateOptions& options, std::optional<uint32_t> bos);

// By GGUF name: the types of the tensors to encode. Others are not touched.
using TensorTypes = std::map<std::string, const quant::Format*, std::less<>>;

struct CalibrateInput {
  const Model& model;  // loaded on an ObservedExecutor with `watch`
  ProductWatch& watch;
  TensorTypes types;
  std::span<const TokenSession> sessions;
  std::optional<uint32_t> bos;
  // Gets the experts that other machines encode; null: all are encoded here.
  ExpertExchange* exchange = nullptr;
};

// A group whose refitted experts are encoded for its node, of which everything else is as in the
// whole model. Borrows what it refers to.
struct CalibrateGroup {
  const Plan& plan;
  const RefitStore& refit;  // of that plan
  uint32_t group = 0;
  // The encoded tensors of a layer of the whole model, whose calibration is finished.
  std::function<Result<EncodedTensors>(uint32_t layer)> whole;
};

// A layer, or the output's matrix: what became of it, without what its store sets, and its encoded
// tensors by their GGUF names, in the order of the GGUF's rows: whole, or those of the outcome's
// experts.
struct EncodedLayer {
  CalibratedOutcome outcome;
  EncodedTensors tensors;
};

class Calibrator {
 public:
  // Errors are those of CalibrationTextOf, and kUnsupported for models that cannot be calibrated.
  static Result<std::unique_ptr<Calibrator>> Open(const CalibrateInput& input,
                                                  const CalibrateOptions& options,
                                                  OnProgress progress);
  // The same for a group. Its layers have only the refitted experts, and it has no output.
  static Result<std::unique_ptr<Calibrator>> OpenGroup(const CalibrateInput& input,
                                                       const CalibrateGroup& group,
                                                       const CalibrateOptions& options,
                                                       OnProgress progress);
  virtual ~Calibrator() = default;

  virtual uint32_t layers() const = 0;
  virtual const Calibration& text() const = 0;
  // Encodes the next layer; `layers()` is the output's matrix, which may have no tensor.
  virtual Result<EncodedLayer> Encode(uint32_t layer) = 0;
  // Goes on with a layer that was encoded before.
  virtual Status Replay(uint32_t layer, const EncodedLayer& encoded) = 0;
};

}  // namespace moepack::runtime
