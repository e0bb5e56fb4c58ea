#include "tools/options/refit_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "libshard/plan/placement.h"
#include "libshard/stats/session_digest.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kLeastRefitMemory = 16'000'000;
constexpr uint64_t kMostOfRefit = 1ull << 40;

void AddMethod(CLI::App& app, runtime::RefitOptions& options) {
  StartSection(app, "Split");
  AddRefitSteps(app, options);
  app.add_option("--lambda", options.lambda,
                 "How strongly ridge regression pulls towards the original weights. Default: 0.01.")
      ->type_name("X")
      ->transform(AsReal(0, 1e6));
  app.add_option("--pool", options.pool,
                 "Neurons of other experts that compete for places in each expert. Default: as "
                 "many as it has.")
      ->type_name("N")
      ->transform(AsCount(1, kMostOfRefit));
  app.add_option("--top-k", options.top_k,
                 "Experts that a token uses on the nodes, which record it. More experts cost time "
                 "for every token. Default: as many as in the model.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxExpertsPerLayer));
  app.add_option("--sweeps", options.sweeps,
                 "How often experts take turns if joint ridge regression of all of them does not "
                 "fit into memory. Default: 3.")
      ->type_name("N")
      ->transform(AsCount(1, 1000));
}

void AddCalibration(CLI::App& app, runtime::RefitOptions& options) {
  StartSection(app, "Text");
  app.add_option("--most-tokens", options.tokens,
                 "Take at most this many tokens of each bucket: whole sessions that are spread "
                 "over it, and of long ones a part. Default: all.")
      ->type_name("N")
      ->transform(AsCount(1, kMostOfRefit));
  app.add_option("--context", options.context, "Tokens of a window. Default: 512.")
      ->type_name("N")
      ->transform(AsCount(2, 1u << 24));
  app.add_option("--foreign-weight", options.foreign_weight,
                 "Weight of the errors on texts that the plan sends to other groups. Default: "
                 "0.1.")
      ->type_name("X")
      ->transform(AsReal(0, 1));
  app.add_option("--keep-back", options.fold,
                 "Hold out every N-th session, or window, to see whether a step helps. Default: "
                 "8.")
      ->type_name("N")
      ->transform(AsCount(2, 1u << 20));
  app.add_option("--least-tokens", options.least_tokens,
                 "An expert that fewer tokens chose is not changed. Default: 600.")
      ->type_name("N")
      ->transform(AsCount(1, kMostOfRefit));
}

// `steps` are those that use the option.
Status CheckUsed(const char* option, bool changed, const std::vector<std::string>& steps,
                 const runtime::RefitOptions& options) {
  const bool used = std::find_first_of(steps.begin(), steps.end(), options.steps.begin(),
                                       options.steps.end()) != steps.end();
  if (used || !changed) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(option, " has no effect: --steps has no ", Join(steps, " and no ")),
               "leave it out, or add a step that uses it"};
}

}  // namespace

void AddNamedFiles(const RefitArguments& arguments, std::vector<std::string>& files) {
  AddNamedFiles(arguments.texts, files);
  files.insert(files.end(), arguments.held_out.begin(), arguments.held_out.end());
}

void AddRefitSteps(CLI::App& app, runtime::RefitOptions& options) {
  app.add_option(
         "--steps", options.steps,
         "The steps of each layer, in the order given, of ridge, refill, router and tune. Default: "
         "ridge,refill,tune,ridge.")
      ->type_name("LIST")
      ->delimiter(',');
  app.add_option("--updates", options.updates,
                 "How often tune changes the weights. Its time grows with it. Default: 200.")
      ->type_name("N")
      ->transform(AsCount(1, runtime::kMostUpdates));
}

Status CheckRefitSteps(const runtime::RefitOptions& options) {
  SHARD_CHECK(runtime::CheckSteps("--steps", options.steps));
  const runtime::RefitOptions usual;
  const std::string ridge = runtime::kRidgeStep, refill = runtime::kRefillStep;
  SHARD_CHECK(
      CheckUsed("--updates", options.updates != usual.updates, {runtime::kTuneStep}, options));
  SHARD_CHECK(CheckUsed("--lambda", options.lambda != usual.lambda, {ridge, refill}, options));
  SHARD_CHECK(CheckUsed("--pool", options.pool != usual.pool, {refill}, options));
  return CheckUsed("--sweeps", options.sweeps != usual.sweeps, {ridge}, options);
}

void AddRefitMethod(CLI::App& app, RefitArguments& arguments) {
  AddTexts(app, arguments.texts);
  AddCalibration(app, arguments.options);
  StartSection(app, "Checks");
  app.add_option(
         "--held-out-text", arguments.held_out,
         "Texts that are to measure the result later, in the form of --text: refused if they are "
         "also calibration text.")
      ->type_name("FILE");
  app.add_flag("--force-overlap", arguments.force_overlap,
               "Only warn of held-out text that is also calibration text.");
  AddMethod(app, arguments.options);
  app.add_flag(
      "--merge-overlay", arguments.merge_overlay,
      "Make the overlay's experts part of every group first, so that each group gets "
      "refitted ones of its own. Without it they stay as they are and are treated as fixed.");
}

Status MergeOverlayOf(const RefitArguments& arguments, Plan& plan) {
  if (!arguments.merge_overlay) return Ok();
  if (plan.overlays.empty())
    return Error{Code::kInvalidArgument, "--merge-overlay has no effect: the plan has no overlay",
                 "leave it out"};
  plan = MergeOverlay(std::move(plan));
  return Ok();
}

void AddRefitResources(CLI::App& app, const std::string& prefix, RefitArguments& arguments) {
  StartSection(app, "Resources");
  app.add_option(
         Cat("--", prefix, "memory"), arguments.options.memory,
         Cat("Upper bound for activations and matrices", prefix.empty() ? "" : " of a refit",
             ", about, without the weights: 512M, 24GiB. Activations that do not fit go to "
             "disk. Default: 4GiB."))
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastRefitMemory));
  app.add_option(Cat("--", prefix, "scratch"), arguments.options.scratch,
                 Cat("Directory for activations", prefix.empty() ? "" : " of a refit",
                     " that do not fit into memory. Default: TMPDIR or /tmp."))
      ->type_name("DIR");
}

std::vector<CalibrationText> CalibrationOf(const std::vector<TokenSession>& sessions,
                                           const std::vector<uint64_t>& taken) {
  std::vector<CalibrationText> texts;
  std::vector<Sha256> digests;
  std::vector<TakenText> parts;
  std::vector<bool> cut;  // by text
  for (size_t i = 0; i < sessions.size(); ++i) {
    const TokenSession& session = sessions[i];
    const auto same = std::find_if(texts.begin(), texts.end(), [&](const CalibrationText& text) {
      return text.name == session.file && text.bucket == session.bucket;
    });
    const auto place = static_cast<size_t>(same - texts.begin());
    if (same == texts.end()) {
      texts.push_back({session.file, session.bucket, "", 0});
      digests.emplace_back();
      parts.emplace_back();
      cut.push_back(false);
    }
    digests[place].Update(std::as_bytes(std::span(session.tokens)));
    texts[place].tokens += session.tokens.size();
    parts[place].tokens += taken[i];
    ++parts[place].of_sessions;
    // A last token on its own is in no window.
    cut[place] = cut[place] || taken[i] == 0 || taken[i] + 1 < session.tokens.size();
    if (taken[i] == 0) continue;
    ++parts[place].sessions;
    texts[place].sessions.push_back(SessionDigest(session.tokens));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    texts[i].sha256 = digests[i].Finish();
    if (cut[i]) texts[i].taken = parts[i];
  }
  return texts;
}

runtime::SessionWeights WeighSessions(const runtime::RefitOptions& options, const Plan& plan,
                                      const std::vector<TokenSession>& sessions) {
  runtime::SessionWeights weights(sessions.size());
  if (!plan.placement) return weights;
  std::vector<uint64_t> own(plan.groups.size(), 0);
  std::vector<size_t> group_of;
  for (const TokenSession& session : sessions) {
    group_of.push_back(Place(*plan.placement, session.tokens).best);
    ++own[group_of.back()];
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      // With a foreign weight of 0, a group without sessions would have no text at all.
      const bool full = own[group] == 0 || group_of[i] == group;
      weights[i].push_back(full ? 1 : static_cast<float>(options.foreign_weight));
    }
  }
  return weights;
}

std::string SessionWeightsText(const runtime::SessionWeights& weights) {
  Sha256 digest;
  bool alike = true;
  for (const std::vector<float>& of_session : weights) {
    alike = alike && of_session.empty();
    digest.Update(std::as_bytes(std::span(of_session)));
  }
  return alike ? "alike" : digest.Finish();
}

}  // namespace moepack::cli
