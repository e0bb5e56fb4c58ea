// Makes the record that `eval` leaves in a distribution from what was measured.
#pragma once

#include <span>
#include <string>

#include "manifest/document/quality.h"
#include "runtime-shim/eval/evaluate.h"

namespace moepack::runtime {

// SHA-256 of sessions: for each the length of its name, the name, the length of its bucket, the
// bucket, the number of its tokens and their ids; all numbers are four bytes, little-endian.
std::string TokensDigest(std::span<const TokenSession> sessions);

// The figures over all sessions and over those of each bucket. The caller adds what Evaluate does
// not know: versions, executor, precision and the digest of the tokens. REQUIRES: `measures` is
// what Evaluate returned for `input`, which has groups of a distribution.
manifest::QualityRecord RecordOf(const EvalInput& input, std::span<const SessionMeasure> measures);

}  // namespace moepack::runtime
