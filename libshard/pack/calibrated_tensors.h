// The tensors that a calibration encoded, as tensors of a GGUF that are copied from the files of
// its store. Only this code decides whether the bytes of a tensor come from the source or from that
// store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/checkpoint.h"
#include "libshard/refit/refit_record.h"

namespace moepack {

class CalibratedTensors {
 public:
  // What a store must have been made for: a model, by MoeModel::Version, and the refit of its
  // groups; null: its groups are not used.
  struct MadeFor {
    std::string model;
    const RefitRecord* refit = nullptr;
  };
  // Checks every file of the store, and that it was made for this and is finished: kMismatch for
  // another model or refit, kCorrupt for one that was stopped. A store without groups goes with
  // every refit, whose experts it lacks. Its files are numbered from `first_file` on.
  static Result<CalibratedTensors> Of(const CalibratedStore& store, const MadeFor& made_for,
                                      uint32_t first_file);
  // What a record says was calibrated, without the bytes: tensors are checked against it, and then
  // made from the source. A verifier compares layouts with it.
  static CalibratedTensors Stated(CalibratedRecord record);

  const CalibratedRecord& record() const { return record_; }
  // They follow the model's files, and those of a refit, among the sources of a packing run.
  const std::vector<SourceFile>& files() const { return files_; }

  // `tensor` as it is made from the store, in `group` with that group's own refitted experts. No
  // value if the store lacks it, and if `type` is not the tensor's own: other types, those of an
  // overlay, are made from the source. kMismatch if the tensor has another type or size in the
  // store; kCorrupt if a record states that.
  Result<std::optional<GgufTensor>> Choose(const GgufTensor& tensor, const quant::Format* type,
                                           std::optional<uint32_t> group) const;
  // The refitted experts of the tensor that the group has in the store, ascending.
  ExpertIds RefittedIn(uint32_t group, const GgufTensor& tensor) const;
  // The same error if the store has a tensor that the model lacks, or refitted experts of some
  // tensors of a layer, but not of all that were encoded there.
  Status CheckAllIn(const GgufModel& model) const;

 private:
  Code mismatch() const { return stated_ ? Code::kCorrupt : Code::kMismatch; }
  Status AddFiles(const CalibratedStore& store);
  Status CheckHasExperts(const GgufModel& model, uint32_t group) const;
  Status CheckInGroup(const GgufTensor& tensor, uint32_t group, uint64_t each) const;

  CalibratedRecord record_;
  bool stated_ = false;
  std::string where_;  // the record, for messages
  uint32_t first_file_ = 0;
  // Numbers of the files: of layers, and of groups and layers.
  std::map<uint32_t, uint32_t> numbers_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_in_groups_;
  std::vector<SourceFile> files_;
};

}  // namespace moepack
