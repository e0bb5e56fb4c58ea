// The store of a calibration: a directory with tensors that were encoded with error feedback, and
// calibration.json, which says how. The engine writes it layer by layer; the packer reads it.
// docs/calibration.md describes the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_record.h"

namespace moepack {

inline constexpr const char* kCalibratedFile = "calibration.json";
// "layer-003.bin".
std::string CalibratedFileName(uint32_t layer);
// "group-001-layer-003.bin".
std::string CalibratedGroupFileName(uint32_t group, uint32_t layer);

// Encoded tensors by their names.
using EncodedTensors = std::map<std::string, std::vector<std::byte>, std::less<>>;

class CalibratedStore {
 public:
  // Reads calibration.json, which may be hostile. kNotFound if there is none.
  static Result<CalibratedStore> Open(const fs::path& directory);

  const fs::path& directory() const { return directory_; }
  const CalibratedRecord& record() const { return record_; }
  // Reads the file of a layer whole and checks its size and digest against the record.
  // REQUIRES: the record has the layer.
  Status Check(uint32_t layer) const;
  // Does the same and returns the bytes.
  Result<EncodedTensors> Read(uint32_t layer) const;
  // The same for a layer of a group. REQUIRES: the record has it.
  Status CheckInGroup(uint32_t group, uint32_t layer) const;
  Result<EncodedTensors> ReadInGroup(uint32_t group, uint32_t layer) const;

 private:
  CalibratedStore() = default;
  fs::path directory_;
  CalibratedRecord record_;
};

// kMismatch, naming what differs, unless the store at `directory` has what `wanted` describes; the
// layers of both are ignored. Groups that `found` has must be of the refit of `wanted`, if any.
Status CheckSameCalibration(const fs::path& directory, const CalibratedRecord& wanted,
                            const CalibratedRecord& found);

// Writes a store. It contains a layer completely or not at all. Nobody else can write it meanwhile:
// the directory is locked, and before each layer calibration.json is compared with what was written
// last, for file systems without locks.
class CalibratedStoreWriter {
 public:
  // Creates the directory, or resumes a store for which CheckSameCalibration holds. `record` has no
  // layers. kMismatch for a store that has layers of another calibration,
  // kInvalidArgument for a directory with anything else in it, kIo while another process writes it.
  static Result<CalibratedStoreWriter> Open(const fs::path& directory, CalibratedRecord record);

  // Includes the layers that are already there.
  const CalibratedRecord& record() const { return record_; }
  bool Has(uint32_t layer) const { return layer < record_.layers.size(); }
  // As CalibratedStore::Read.
  Result<EncodedTensors> Read(uint32_t layer) const;
  // Adds a layer with its tensors, whose types are `types`; sets outcome.tensors and
  // outcome.sha256. kMismatch if the record is no longer what was written last, and for a tensor
  // without a type. REQUIRES: layers are added in their order.
  Status Add(CalibratedOutcome outcome, const EncodedTensors& tensors,
             const std::map<std::string, const quant::Format*, std::less<>>& types);
  // The same for a layer of a group, whose refitted experts are those of the refit with this
  // version. REQUIRES: the layers of a group follow each other.
  Status AddToGroup(const std::string& refit, uint32_t group, CalibratedOutcome outcome,
                    const EncodedTensors& tensors,
                    const std::map<std::string, const quant::Format*, std::less<>>& types);
  Result<EncodedTensors> ReadInGroup(uint32_t group, uint32_t layer) const;

 private:
  explicit CalibratedStoreWriter(InsideDirectory files) : files_(std::move(files)) {}
  Status Replace(CalibratedRecord record);

  InsideDirectory files_;  // locked while it is open
  CalibratedRecord record_;
};

}  // namespace moepack
