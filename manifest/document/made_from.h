// Whether text that measures a distribution is text that it was made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Compares the digests of sessions (SessionDigest) with those that the distribution records of the
// statistics behind its plan, of its refit, and of its calibration.
MadeFrom MadeFromText(const Manifest& manifest, const std::vector<std::string>& digests);

// Says which of the sessions are not held out: "The plan was made from 3 of the 12 sessions, which
// are not held out.", and the same of a refit, or that this is not known; "" if all are held out.
// `made_from` has no value in records of versions that did not ask.
std::string NotHeldOutText(const std::optional<MadeFrom>& made_from, uint64_t sessions);

}  // namespace moepack::manifest
