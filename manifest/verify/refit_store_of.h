// The stores that a distribution was made with.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/refit/refit_store.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Opens the store in `directory`, whose record must be that of the manifest, with the digests of
// its files. `where` names the manifest in messages. kInvalidArgument for a distribution without a
// refit, kNotFound if there is no store, kMismatch for another one, kCorrupt for a part of a refit
// that does not know how many groups there are.
Result<RefitStore> OpenStoreOf(const Manifest& manifest, const std::string& where,
                               const std::string& directory);
// The same for the store of its calibration.
Result<CalibratedStore> OpenCalibratedStoreOf(const Manifest& manifest, const std::string& where,
                                              const std::string& directory);

}  // namespace moepack::manifest
