// The texts that a refit or a calibration learned from, as records name them; and how records of
// both read short texts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/json_values.h"

namespace moepack {

// A part of a text.
struct TakenText {
  uint64_t tokens = 0, sessions = 0, of_sessions = 0;
  bool operator==(const TakenText&) const = default;
};

// A file of calibration text, as it was read.
struct CalibrationText {
  std::string name;    // of the file, without directories
  std::string bucket;  // "" if none was named
  std::string sha256;  // 64 hexadecimal digits
  uint64_t tokens = 0;
  // SessionDigest of the sessions that were taken, in their order; empty in records of versions
  // that did not note it, and if none was taken.
  std::vector<std::string> sessions = {};
  // Tokens and sessions of the text that were taken, if not all of them were (--most-tokens).
  std::optional<TakenText> taken = {};
  bool operator==(const CalibrationText&) const = default;
};
// Whether a record's texts are these. Records of versions that did not note the sessions agree with
// all that have the same tokens, unless only some were taken: those versions took others.
bool SameTexts(const std::vector<CalibrationText>& recorded,
               const std::vector<CalibrationText>& found);

// Readers and writers of fields (libshard/base/text/record.h). Limits far above what is written
// keep a hostile record from taking memory.

// Text of at most 256 bytes, as names, buckets, steps and parameters are.
Result<std::string> ReadShortText(const JsonFields& fields, const char* name);
// An array of at most 65,536 such texts.
Result<std::vector<std::string>> ReadShortTexts(const JsonFields& fields, const char* name);
Result<std::string> ReadSha256(const JsonFields& fields, const char* name);
// MoeModel::Version, or another digest of 16 digits.
Result<std::string> ReadVersionDigits(const JsonFields& fields, const char* name);

using TextParameters = std::map<std::string, std::string>;
Result<TextParameters> ReadTextParameters(const JsonFields& fields, const char* name);
Json TextParametersToJson(const TextParameters& parameters);
// The first parameter that two records do not have alike, and its values for messages.
struct DifferentParameter {
  std::string name, wanted, found;
};
std::optional<DifferentParameter> FirstDifferentParameter(const TextParameters& wanted,
                                                          const TextParameters& found);

Result<std::vector<CalibrationText>> ReadCalibrationTexts(const JsonFields& fields,
                                                          const char* name);
Json CalibrationTextsToJson(const std::vector<CalibrationText>& texts);

}  // namespace moepack
