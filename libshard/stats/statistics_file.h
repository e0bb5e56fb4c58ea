// Statistics in files: JSON, and a compact binary with the same content (docs/statistics.md).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "libshard/base/json.h"
#include "libshard/base/result.h"
#include "libshard/stats/statistics.h"

namespace moepack {

// Version 2 added the token counts of sessions; version 1 is still read.
inline constexpr uint32_t kStatisticsVersion = 2;
inline constexpr uint32_t kFirstStatisticsVersion = 1;
inline constexpr std::string_view kStatisticsFormat = "moepack-statistics";
inline constexpr std::string_view kStatisticsMagic = "MOESTATS";

Json StatisticsToJson(const Statistics& statistics);
std::string StatisticsToBinary(const Statistics& statistics);

// The readers take hostile input, and `where` names it. kCorrupt for a document of another format
// or one that contradicts itself, kUnsupported for a newer version. What they return passes
// CheckStatistics.
Result<Statistics> StatisticsFromJson(const std::string& where, const Json& document);
Result<Statistics> StatisticsFromBinary(const std::string& where, std::span<const std::byte> bytes);

// Checks that names of sessions differ, layers ascend and have experts, tables have the right size,
// counts of a layer add up to tokens x top-k, pairs do not exceed tokens, token ids ascend and are
// counted no more often than the prefill has tokens, and no number is negative or beyond the limits
// of statistics.h.
Status CheckStatistics(const std::string& where, const Statistics& statistics);
Status CheckModelIdentity(const std::string& where, const ModelIdentity& model);
// kUnsupported for a version that this moepack does not read.
Status CheckStatisticsVersion(const std::string& where, uint64_t version);

// Reads either form; the first bytes tell which.
Result<Statistics> ReadStatistics(const std::string& path);
// Writes the binary form when the name ends in .bin, else JSON. An existing file is replaced.
Status WriteStatistics(const std::string& path, const Statistics& statistics);
// The bytes that WriteStatistics would write.
std::string StatisticsBytes(const std::string& path, const Statistics& statistics);

}  // namespace moepack
