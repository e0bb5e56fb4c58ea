// `verify --redo` of a calibrated distribution: encodes one layer again and compares every byte
// with the store of the calibration.
#pragma once

#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "manifest/verify/verify.h"
#include "tools/commands/refit_redo.h"

namespace moepack::cli {

// Whether --redo means a layer of the calibration: that of a distribution which is not refitted, or
// whose calibration's store is named. With the store of the refit too, that is so if groups were
// encoded for their nodes, which takes both.
bool RedoesCalibration(const std::string& directory, const RedoArguments& arguments);
// The store to compare with; "" if there is none to compare with.
std::string CalibratedStoreFor(const std::string& directory, const RedoArguments& arguments);

// What a layer is encoded again from: the record, the source and the texts.
struct CalibratedRedoInputs;
// Reads it and checks it, before the bundles are read. `options` name the source. Errors:
//   kInvalidArgument  a layer that the model does not have, no texts
//   kMismatch         a store, texts, a source or a machine other than those of the calibration
//   kNotFound         no store, or a text that does not exist
//   kCorrupt          a store or a record whose values cannot be
//   kUnavailable, kUnsupported  the executor of the calibration is not there
// REQUIRES: arguments.layer.
Result<std::shared_ptr<const CalibratedRedoInputs>> PrepareCalibratedRedo(
    const std::string& directory, const manifest::VerifyOptions& options,
    const RedoArguments& arguments);

// Adds the rule calibrated-redo to the report: the layer, encoded again after the store's earlier
// layers, must have the same figures and bytes as in the store; also that of each group, for which
// the store of the refit must be named. If it cannot be encoded, that is a finding too.
void RedoCalibration(const CalibratedRedoInputs& inputs, manifest::VerifyReport& report);

}  // namespace moepack::cli
