// What `eval --record` measured about a distribution: "quality.measured" of distribution.json, and
// "quality" in the output of `eval --json`. docs/distribution-format.md, "calibration and quality".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack::manifest {

// A mean over tokens with its standard error.
struct MeanError {
  double mean = 0, error = 0;
  bool operator==(const MeanError&) const = default;
};

// How a masked run differs from another run of the same tokens.
struct DamageFigures {
  MeanError kld;         // KL divergence of the next-token distributions, in nats per token
  MeanError extra_nats;  // loss of log-probability of the text, in nats per token
  MeanError top1;        // share of tokens for which both rank the same continuation first
  bool operator==(const DamageFigures&) const = default;
};

// One run over some sessions.
struct QualityFigures {
  uint64_t sessions = 0, tokens = 0;   // tokens that were scored
  MeanError nats;                      // of the text, per token: minus the log-probability
  std::optional<DamageFigures> split;  // relative to the unmasked run of the same weights
  std::optional<DamageFigures> total;  // relative to the reference, the model of --against
  bool operator==(const QualityFigures&) const = default;
};

// One run over all sessions, and over those of each bucket, in the order of their first session.
// Without buckets if no session has one; "" is the bucket of sessions without one.
struct QualityRow {
  QualityFigures all;
  std::vector<std::pair<std::string, QualityFigures>> buckets;
  bool operator==(const QualityRow&) const = default;
};

// How many of the sessions are also text that the distribution was made from, and so not held out;
// no value where it does not say.
struct MadeFrom {
  std::optional<uint64_t> plan;
  bool refitted = false;
  std::optional<uint64_t> refit;  // only for refitted experts
  bool calibrated = false;
  std::optional<uint64_t> calibration = {};  // only for calibrated tensors
  bool operator==(const MadeFrom&) const = default;
};

struct QualityRecord {
  std::string tool_version;
  std::string executor;               // "cpu"
  std::string precision;              // formats of the weights, most bytes first: "q4_K+f32"
  uint32_t context = 0;               // tokens of a window
  bool score_half = false;            // only the second half of each window was scored
  std::string tokens_sha256;          // of the token ids of all sessions (TokensDigest)
  uint64_t sessions = 0, tokens = 0;  // that were scored
  std::optional<MadeFrom> made_from;  // no value in records of versions that did not ask
  // The `total` of the unmasked run is the cost of quantization.
  std::optional<QualityRow> reference, unmasked;
  std::vector<std::pair<uint32_t, QualityRow>> groups;  // ascending; the groups that were there
  QualityRow best;  // every session on the group that captures most of it
  bool operator==(const QualityRecord&) const = default;
};

// `value` rounded to six significant digits, like all numbers of a record.
double SixDigits(double value);

Json QualityToJson(const QualityRecord& record);
// The document may be hostile. kCorrupt names the field. `groups` is the number of groups of the
// distribution. Unknown fields are skipped, because newer versions may add some.
Result<QualityRecord> QualityFromJson(const std::string& where, const Json& value, size_t groups);

}  // namespace moepack::manifest
