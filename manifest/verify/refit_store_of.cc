#include "manifest/verify/refit_store_of.h"

#include "libshard/base/text/text.h"

namespace moepack::manifest {

Result<RefitStore> OpenStoreOf(const Manifest& manifest, const std::string& where,
                               const std::string& directory) {
  if (!manifest.refit)
    return Error{Code::kInvalidArgument,
                 Cat(where, ": expected a refitted distribution, found none"),
                 "leave out --redo and --refit-store"};
  SHARD_TRY(RefitStore store, RefitStore::Open(directory));
  if (!(store.record() == *manifest.refit))
    return Error{Code::kMismatch,
                 Cat(Shown(directory), ": record: expected that of ", where, ", found another"),
                 "--refit-store names the store that the distribution was made with"};
  const size_t groups = manifest.plan.groups.size();
  if (!store.part() || store.part()->twins.size() == groups) return store;
  return Error{Code::kCorrupt,
               Cat(Shown(directory), "/", kRefitPartFile, ": twins: expected ", groups, ", as ",
                   where, " has groups, found ", store.part()->twins.size())};
}

Result<CalibratedStore> OpenCalibratedStoreOf(const Manifest& manifest, const std::string& where,
                                              const std::string& directory) {
  if (!manifest.calibrated)
    return Error{Code::kInvalidArgument,
                 Cat(where, ": expected a calibrated distribution, found none"),
                 "leave out --redo and --calibrated-store"};
  SHARD_TRY(CalibratedStore store, CalibratedStore::Open(directory));
  CalibratedRecord record = store.record();
  // The distribution may have been made before groups were added, or without a refit.
  if (!manifest.calibrated->groups) record.groups.reset();
  if (record == *manifest.calibrated) return store;
  return Error{Code::kMismatch,
               Cat(Shown(directory), ": record: expected that of ", where, ", found another"),
               "--calibrated-store names the store that the distribution was made with"};
}

}  // namespace moepack::manifest
