// The options of a calibration: what to encode with error feedback, on which texts.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_record.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

struct CalibrateArguments {
  TextArguments texts;
  runtime::CalibrateOptions options;
  uint32_t device = 0;                // of the executor
  std::vector<std::string> held_out;  // texts meant to measure the result
  bool force_overlap = false;
  std::string force_option;  // the name that it has in this command
  std::string store;         // a directory; "": beside the output if something is calibrated
  bool has_details = false;  // options were given that only a run uses

  // Whether texts are named; without any, a store that is named is used as it is.
  bool runs() const { return !texts.texts.empty() || !texts.tokens.empty(); }
  bool wanted() const { return runs() || !store.empty(); }
};
void AddNamedFiles(const CalibrateArguments& arguments, std::vector<std::string>& files);

// --calibrate, --calibrate-tokens, --bucket, --most-tokens, --context, --keep-back, --least-tokens,
// --shrink, --held-out-text, --force-overlap, --scratch, --executor and --device. With the prefix
// "calibrate-", the others have it too, and so has --calibrate-memory.
void AddCalibrate(CLI::App& app, const std::string& prefix, CalibrateArguments& arguments);
// kInvalidArgument for any of these without text.
Status CheckCalibrate(const CalibrateArguments& arguments);
// The options of a run of `build` that decide its bytes as distribution.json records them, without
// directories; a store that is used as it is has no name there.
std::vector<std::string> RecordCalibrateOptions(const CalibrateArguments& arguments);
// Sets the parameters of a record, with the method and instructions of this build.
void RecordParameters(const runtime::CalibrateOptions& options, CalibratedRecord& record);
// The options of that record. kCorrupt, with `where`, for parameters that are missing or not
// numbers; kMismatch if this build or machine computes otherwise.
Result<runtime::CalibrateOptions> CalibrateOptionsOf(const std::string& where,
                                                     const CalibratedRecord& record);
// --calibrated-store
void AddCalibratedStore(CLI::App& app, CalibrateArguments& arguments);

}  // namespace moepack::cli
