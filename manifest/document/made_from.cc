#include "manifest/document/made_from.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/plan/expectation.h"
#include "libshard/stats/session_digest.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {
namespace {

// A text that is not named may be any: then only what was found is known.
std::optional<uint64_t> CountIn(const std::vector<std::string>& known, bool all_named,
                                const std::vector<std::string>& digests) {
  const size_t found = CountKnown(digests, known);
  if (found == 0 && !all_named) return std::nullopt;
  return found;
}

std::optional<uint64_t> CountInPlan(const Manifest& manifest,
                                    const std::vector<std::string>& digests) {
  const Json* const found =
      manifest.original ? FieldIndex(*manifest.original).Find("calibration") : nullptr;
  if (found == nullptr || !found->is_object()) {
    // A table that was learned for a plan without statistics does not say from which text.
    if (manifest.plan.placement) return std::nullopt;
    return 0;
  }
  const JsonFields fields(*found, "calibration");
  // Readers carry the section, whatever it has.
  const auto known = DigestsField(fields, kCalibrationTexts);
  const auto sessions = fields.UnsignedOr("sessions", UINT64_MAX);
  const auto held_out = fields.UnsignedOr("held_out", 0);
  if (!known || !sessions || !held_out) return std::nullopt;
  return CountIn(*known, known->size() == *sessions + *held_out, digests);
}

std::optional<uint64_t> CountInTexts(const std::vector<CalibrationText>& texts,
                                     const std::vector<std::string>& digests) {
  std::vector<std::string> known;
  bool all_named = true;
  for (const CalibrationText& text : texts) {
    known.insert(known.end(), text.sessions.begin(), text.sessions.end());
    // Of a text of which something was taken there are sessions.
    all_named = all_named && (!text.sessions.empty() || (text.taken && text.taken->sessions == 0));
  }
  return CountIn(known, all_named, digests);
}

std::string Sentence(const char* what, const std::optional<uint64_t>& count, uint64_t sessions) {
  if (!count) return Cat("Whether the ", what, " was made from the same text is not known.");
  if (*count == 0) return "";
  const std::string all =
      sessions == 1 ? "the one session" : Cat("all ", Plural(sessions, "session"));
  const std::string which =
      *count == sessions ? all : Cat(FormatCount(*count), " of the ", Plural(sessions, "session"));
  return Cat("The ", what, " was made from ", which, ", which ", *count == 1 ? "is" : "are",
             " not held out.");
}

}  // namespace

MadeFrom MadeFromText(const Manifest& manifest, const std::vector<std::string>& digests) {
  MadeFrom made_from;
  made_from.plan = CountInPlan(manifest, digests);
  if (manifest.refit) {
    made_from.refitted = true;
    made_from.refit = CountInTexts(manifest.refit->calibration, digests);
  }
  if (manifest.calibrated) {
    made_from.calibrated = true;
    made_from.calibration = CountInTexts(manifest.calibrated->calibration, digests);
  }
  return made_from;
}

std::string NotHeldOutText(const std::optional<MadeFrom>& made_from, uint64_t sessions) {
  if (!made_from) return Sentence("plan", std::nullopt, sessions);
  std::vector<std::string> sentences = {Sentence("plan", made_from->plan, sessions)};
  if (made_from->refitted) sentences.push_back(Sentence("refit", made_from->refit, sessions));
  if (made_from->calibrated)
    sentences.push_back(Sentence("calibration", made_from->calibration, sessions));
  std::erase(sentences, "");
  return moepack::Join(sentences, " ");
}

}  // namespace moepack::manifest
