// The options of a refit, and what it takes from the texts.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_record.h"
#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/refit/refit_options.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

struct RefitArguments {
  TextArguments texts;
  runtime::RefitOptions options;
  std::vector<std::string> held_out;  // texts meant to measure the result
  bool force_overlap = false;
  bool merge_overlay = false;
};
void AddNamedFiles(const RefitArguments& arguments, std::vector<std::string>& files);
// --steps and --updates.
void AddRefitSteps(CLI::App& app, runtime::RefitOptions& options);
// kInvalidArgument for a step that does not exist, and for an option whose steps are not taken.
Status CheckRefitSteps(const runtime::RefitOptions& options);
// The options of AddRefitSteps, and --text, --tokens, --bucket, --lambda, --pool, --top-k,
// --most-tokens, --foreign-weight, --keep-back, --sweeps, --least-tokens, --context,
// --held-out-text, --force-overlap, --merge-overlay.
void AddRefitMethod(CLI::App& app, RefitArguments& arguments);
// --memory and --scratch; with the prefix "refit-", --refit-memory and --refit-scratch.
void AddRefitResources(CLI::App& app, const std::string& prefix, RefitArguments& arguments);

// Merges the current overlay of a plan into its groups if --merge-overlay is given.
// kInvalidArgument for a plan without overlays.
Status MergeOverlayOf(const RefitArguments& arguments, Plan& plan);

// What a record says about the texts: one entry for each file and bucket, in their order. `taken`
// is Calibration::taken of the sessions.
std::vector<CalibrationText> CalibrationOf(const std::vector<TokenSession>& sessions,
                                           const std::vector<uint64_t>& taken);

// The weights of sessions: 1 for the group that the plan's placement table assigns a session to,
// and the foreign weight for the others; 1 for all if there is no table. A group without any
// session weighs all of them equally.
runtime::SessionWeights WeighSessions(const runtime::RefitOptions& options, const Plan& plan,
                                      const std::vector<TokenSession>& sessions);

// The parameter of a record that states the sessions' weights, and its text: "alike", or the
// SHA-256 of the weights.
inline constexpr const char* kSessionWeights = "session_weights";
std::string SessionWeightsText(const runtime::SessionWeights& weights);

}  // namespace moepack::cli
