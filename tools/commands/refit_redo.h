// `verify --redo`: computes one layer of a refit again and compares it with the refit store.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "manifest/verify/verify.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

struct RedoArguments {
  std::optional<uint32_t> layer;
  std::string store;  // "": with a layer, the distribution's directory with .refit appended
  std::string calibrated_store;  // the same for a calibration, with .calibrated appended
  TextArguments texts;
};
// --redo, --refit-store, --calibrated-store, --text, --tokens, --bucket. REQUIRES: --against is
// there.
void AddRedo(CLI::App& app, RedoArguments& arguments);

// The store to compare with; "" if there is none to compare with.
std::string RefitStoreFor(const std::string& directory, const RedoArguments& arguments);

// What a layer is computed again from: the record, the source and the texts of its refit.
struct RedoInputs;
// Reads it and checks it, before the bundles are read. `options` name the source. A corrupt
// manifest is no error here: the verification says what is wrong with it. Errors:
//   kInvalidArgument  a distribution without a refit, a layer that was not refitted, no texts
//   kMismatch         a store, texts or a source that are not those of the refit
//   kNotFound         no store, or a text that does not exist
//   kUnavailable      the executor of the refit is not available here
// REQUIRES: arguments.layer.
Result<std::shared_ptr<const RedoInputs>> PrepareRedo(const std::string& directory,
                                                      const manifest::VerifyOptions& options,
                                                      const RedoArguments& arguments);

// Adds the rule refit-redo to the report: the layer, computed again from the source, the texts and
// the store's earlier layers, must have the same figures and bits as in the store. If it cannot be
// computed, that is a finding too.
void RedoRefit(const RedoInputs& inputs, manifest::VerifyReport& report);

}  // namespace moepack::cli
