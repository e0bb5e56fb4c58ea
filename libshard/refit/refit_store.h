// The refit store: a directory with experts and router rows that were refitted on calibration text,
// and refit.json, which says how. The engine writes it layer by layer; the packer reads it.
// docs/refit.md describes the files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_part.h"
#include "libshard/refit/refit_record.h"

namespace moepack {

inline constexpr const char* kRefitFile = "refit.json";
// The inputs of the refitted nodes' matrices, for quantizing them. A store without it can still be
// used.
inline constexpr const char* kRefitImatrix = "imatrix.gguf";
// "layer-003-group-001.safetensors".
std::string RefittedFileName(uint32_t layer, uint32_t group);

// The result of refitting one layer for one group. All matrices are row-major, one expert after
// another in the order of `expert_ids`; n is their number, H the width of their inputs and outputs,
// F that of an expert, and R that of the router's inputs, which is H unless the experts work in a
// space of their own.
struct RefittedExperts {
  uint32_t layer = 0, group = 0;
  // Ascending. Some or all of RefitSlots(); missing ones keep the source's weights.
  ExpertIds expert_ids;
  uint64_t hidden = 0, width = 0, router_width = 0;  // H, F and R
  std::vector<float> gate;                           // [n, F, H]; empty without a gate
  std::vector<float> up, down, router;               // [n, F, H], [n, H, F], [n, R]
  // Each is empty if the model has none, or if the source's values stay.
  std::vector<float> router_bias, selection_bias;    // [n]
  std::vector<float> gate_bias, up_bias, down_bias;  // [n, F], [n, F], [n, H]
};

// One of the arrays above as files know it: its name, and the shape that it has if it exists.
struct RefittedArray {
  const char* name;
  std::vector<float> RefittedExperts::*values;
  bool required;
  std::vector<uint64_t> (*shape)(uint64_t expert_count, uint64_t hidden, uint64_t width,
                                 uint64_t router_width);
  // Of `expert_count` experts with the sizes of RefittedExperts or RefittedFile.
  template <class Sizes>
  std::vector<uint64_t> ShapeOf(uint64_t expert_count, const Sizes& sizes) const {
    return shape(expert_count, sizes.hidden, sizes.width, sizes.router_width);
  }
};
const std::vector<RefittedArray>& RefittedArrays();

// Whether both have the same experts with the same values, of whatever layers and groups.
bool HaveSameValues(const RefittedExperts& a, const RefittedExperts& b);

// kCorrupt unless the experts ascend, every array has its shape, and every value is finite. `where`
// starts the message.
Status CheckRefitted(const std::string& where, const RefittedExperts& refitted);

// The experts of a layer that a refit may change in a group: what its bundle holds, except what the
// current overlay has for every node or for this group, which stays as it is.
ExpertIds RefitSlots(const Plan& plan, size_t group, uint32_t layer);

// Digest, 64 hexadecimal digits, of what a refit depends on in a plan: the partition and the
// current overlay.
std::string RefitPlanDigest(const Plan& plan);

// kMismatch, naming what differs, unless both are of one refit; the outcomes are ignored.
Status CheckSameRefit(const fs::path& directory, const RefitRecord& wanted,
                      const RefitRecord& found);

// Where a file of a store has its arrays.
struct RefittedFile {
  ExpertIds expert_ids;
  uint64_t hidden = 0, width = 0, router_width = 0;
  std::map<std::string, uint64_t, std::less<>> offsets;  // of each array, by its name
  uint64_t size = 0, data_start = 0;
};

class RefitStore {
 public:
  // Reads refit.json, which may be hostile. kNotFound if there is none.
  static Result<RefitStore> Open(const fs::path& directory);

  const fs::path& directory() const { return directory_; }
  const RefitRecord& record() const { return record_; }
  // Which groups it has; no value if all.
  const std::optional<RefitPart>& part() const { return part_; }
  // Whether the run that wrote it came to its end: the importance matrices are written last. A
  // store without them can still be used if it has every layer.
  Result<bool> IsFinished() const;
  // Checks the file accepted for this layer and group: shapes, values and digest, all against the
  // record. No value if nothing was accepted or the pair is not in the store.
  Result<std::optional<RefittedFile>> Check(uint32_t layer, uint32_t group) const;
  // Does the same and reads the values.
  Result<std::optional<RefittedExperts>> Read(uint32_t layer, uint32_t group) const;

 private:
  RefitStore() = default;
  fs::path directory_;
  RefitRecord record_;
  std::optional<RefitPart> part_;
};

// Writes a store. It contains a layer completely or not at all. Nobody else can write it meanwhile:
// the directory is locked, and before each layer refit.json is compared with what was written last,
// for file systems without locks.
class RefitStoreWriter {
 public:
  // Creates the directory, or resumes a store whose record equals `record` apart from its layers,
  // which are empty in `record`. kMismatch for a store that has layers of another refit,
  // kInvalidArgument for a directory with anything else in it, kIo while another process writes it.
  // With `part` it has some of the groups; kMismatch for a store with layers of another part.
  static Result<RefitStoreWriter> Open(const fs::path& directory, RefitRecord record,
                                       const std::optional<RefitPart>& part = {});

  // Includes the outcomes of the layers that are already there.
  const RefitRecord& record() const { return record_; }
  bool Has(uint32_t layer) const;
  // Adds a layer: one outcome per group that the store has, in the order of groups, and the experts
  // of those that were accepted (their fields in RefitOutcome are set here). kMismatch if the
  // record is no longer what was written last. REQUIRES: layers ascend.
  Status Add(std::vector<RefitOutcome> outcomes, const std::vector<RefittedExperts>& accepted);

 private:
  explicit RefitStoreWriter(InsideDirectory files) : files_(std::move(files)) {}

  InsideDirectory files_;  // locked while it is open
  RefitRecord record_;
};

}  // namespace moepack
