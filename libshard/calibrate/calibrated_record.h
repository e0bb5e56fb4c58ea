// How tensors were encoded with error feedback: the contents of calibration.json, and what a
// distribution records of it. docs/calibration.md describes the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/refit/calibration_text.h"
#include "quant/format.h"

namespace moepack {

inline constexpr const char* kCalibratedFormat = "moepack-calibration";
inline constexpr unsigned kCalibratedMajor = 1;

// An encoded tensor in a layer's file: whole; of a task or group, some experts' rows.
struct CalibratedTensor {
  std::string name;  // in the GGUF
  const quant::Format* type = nullptr;
  uint64_t offset = 0, bytes = 0;
  bool operator==(const CalibratedTensor&) const = default;
};

// What became of matrices.
struct CalibratedFigures {
  uint64_t matrices = 0;                           // that were encoded
  uint64_t accepted = 0;                           // of them, with feedback
  uint64_t few_tokens = 0, worse = 0, unseen = 0;  // the others, by their reasons
  // On held-out text, of all matrices: what encoding adds to the error that the products of the
  // source's weights have after encoded layers, without feedback and as encoded. Finite; negative
  // where feedback makes up for more than rounding costs.
  double error_plain = 0, error = 0;
  void Add(const CalibratedFigures& other);
  bool operator==(const CalibratedFigures&) const = default;
};

// Those of one expert of a task or of a group.
struct CalibratedExpert {
  uint32_t id = 0;
  CalibratedFigures figures;
  bool operator==(const CalibratedExpert&) const = default;
};

// The outcome for a layer, or for the output's matrix. The errors of an expert's matrices are added
// up first, and then those of the experts in the order of their ids, so that machines that share
// the experts get the same sums.
struct CalibratedOutcome : CalibratedFigures {
  uint32_t layer = 0;
  // Of a task or a group, which encode some of the experts: these, ascending. The tensors have only
  // their rows.
  std::vector<CalibratedExpert> experts;
  // In the order of the file, without gaps. Set by the store, as is the file's digest of 64
  // hexadecimal digits, which is empty without tensors.
  std::vector<CalibratedTensor> tensors;
  std::string sha256;
  // The size of the file.
  uint64_t bytes() const {
    return tensors.empty() ? 0 : tensors.back().offset + tensors.back().bytes;
  }
  bool operator==(const CalibratedOutcome&) const = default;
};

// Refitted experts, which are encoded for the nodes of their groups.
struct CalibratedGroups {
  std::string refit;  // RefitVersion() of the refit that they are of
  // By group, all layers of the model in order; one in which nothing was refitted has no experts.
  // If groups or layers are missing, the calibration was stopped.
  std::vector<std::vector<CalibratedOutcome>> layers;
  bool operator==(const CalibratedGroups&) const = default;
};

struct CalibratedRecord {
  std::string model;         // MoeModel::Version("") of the source
  std::string types;         // TypesDigest of what was to be encoded
  uint32_t layer_count = 0;  // of the model
  // Everything else that determines the result, as text: "context" -> "512".
  std::map<std::string, std::string> parameters;
  std::vector<CalibrationText> calibration;
  // Layer i is the i-th. The one after those of the model is the output's matrix, which may have no
  // tensor; without it the calibration was stopped.
  std::vector<CalibratedOutcome> layers;
  std::optional<CalibratedGroups> groups;
  bool operator==(const CalibratedRecord&) const = default;

  // The tensor and the layer that it is in; null if it was not encoded.
  struct Place {
    const CalibratedOutcome* layer = nullptr;
    const CalibratedTensor* tensor = nullptr;
  };
  Place Find(std::string_view name) const;
  bool finished() const { return layers.size() == size_t{layer_count} + 1; }
  // Null for a layer that the group does not have.
  const CalibratedOutcome* FindInGroup(uint32_t group, uint32_t layer) const;
  // Tokens of the texts that were taken.
  uint64_t tokens() const;
  CalibratedFigures sum() const;  // of all layers, also those of groups
};

// Digest, 64 hexadecimal digits, of which tensor gets which type.
std::string TypesDigest(const std::map<std::string, const quant::Format*, std::less<>>& types);

Json CalibratedToJson(const CalibratedRecord& record);
// The text may be hostile. kCorrupt for a wrong structure, kUnsupported for another major version.
Result<CalibratedRecord> CalibratedFromJson(const std::string& where, const Json& document);

// What a GGUF with these tensors says about them: moepack.calibration.*.
void SetCalibrationKeys(const CalibratedRecord& record, GgufMetadata& metadata);

// What a reader of a GGUF learns from these keys.
struct CalibrationKeys {
  std::string version;  // 16 digits of a digest of the record
  std::string method, texts;
  uint64_t tokens = 0;
  bool operator==(const CalibrationKeys&) const = default;
};
// No value for files that were not calibrated. The metadata may be hostile: texts that are longer
// than ours are left out.
std::optional<CalibrationKeys> FindCalibrationKeys(const GgufMetadata& metadata);

}  // namespace moepack
