// The tensors that a calibration encoded, as tensors of a GGUF that are copied from the files of
// its store. Only this code decides whether the bytes of a tensor come from the source or from that
// store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/checkpoint.h"

namespace moepack {

class CalibratedTensors {
 public:
  // Checks every file of the store, and that it was made for this model, by MoeModel::Version, and
  // is finished: kMismatch for another model, kCorrupt for one that was stopped. Its files are
  // numbered from `first_file` on.
  static Result<CalibratedTensors> Of(const CalibratedStore& store, const std::string& model,
                                      uint32_t first_file);
  // What a record says was calibrated, without the bytes: tensors are checked against it, and then
  // made from the source. A verifier compares layouts with it.
  static CalibratedTensors Stated(CalibratedRecord record);

  const CalibratedRecord& record() const { return record_; }
  // They follow the model's files, and those of a refit, among the sources of a packing run.
  const std::vector<SourceFile>& files() const { return files_; }

  // `tensor` as it is made from the store. No value if that lacks it, and if `type` is not the
  // tensor's own: other types, those of an overlay, are made from the source. kMismatch if the
  // tensor has another type or size in the store; kCorrupt if a record states that.
  Result<std::optional<GgufTensor>> Choose(const GgufTensor& tensor,
                                           const quant::Format* type) const;
  // The same error if the store has a tensor that the model lacks.
  Status CheckAllIn(const GgufModel& model) const;

 private:
  Code mismatch() const { return stated_ ? Code::kCorrupt : Code::kMismatch; }

  CalibratedRecord record_;
  bool stated_ = false;
  std::string where_;  // the record, for messages
  uint32_t first_file_ = 0;
  std::vector<uint32_t> numbers_;  // of the files, by layer
  std::vector<SourceFile> files_;
};

}  // namespace moepack
