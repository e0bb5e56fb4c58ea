// Statistics in files: JSON, and a compact binary with the same content (docs/statistics.md).
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "libshard/stats/statistics.h"

namespace moepack {

// Version 2 added the token counts of sessions, version 3 the digests of their tokens; both earlier
// ones are still read.
inline constexpr uint32_t kStatisticsVersion = 3;
inline constexpr uint32_t kFirstStatisticsVersion = 1;
inline constexpr std::string_view kStatisticsFormat = "moepack-statistics";
inline constexpr std::string_view kStatisticsMagic = "MOESTATS";

Json StatisticsToJson(const Statistics& statistics);
std::string StatisticsToBinary(const Statistics& statistics);

// The readers take hostile input, and `where` names it. kCorrupt for a document in another format
// or one that contradicts itself, kUnsupported for a newer version. What they return passes
// CheckStatistics.
Result<Statistics> StatisticsFromJson(const std::string& where, const Json& document);
Result<Statistics> StatisticsFromBinary(const std::string& where, std::span<const std::byte> bytes);

// Receives what StreamStatistics reads, in this order. An error ends the reading and is returned.
class StatisticsParts {
 public:
  virtual ~StatisticsParts() = default;
  virtual Status Model(const ModelIdentity& model) = 0;
  virtual Status Session(SessionTally session) = 0;
  // The pairs of each layer, in layer order.
  virtual Status Pairs(std::vector<uint64_t> counts) = 0;
};
// Reads the binary form one session or one layer's pairs at a time, so that no more is in memory.
// Errors are those of StatisticsFromBinary; every part has passed its checks when it is handed
// over, but a later one may still be refused.
Status StreamStatistics(const ByteSource& source, StatisticsParts& parts);

// Checks that names of sessions differ, layers ascend and have experts, tables have the right size,
// counts of a layer add up to tokens x top-k, pairs do not exceed tokens, token ids ascend and are
// counted no more often than the prefill has tokens, and no number is negative or beyond the limits
// of statistics.h.
Status CheckStatistics(const std::string& where, const Statistics& statistics);
Status CheckModelIdentity(const std::string& where, const ModelIdentity& model);
// kUnsupported for a version that this moepack does not read.
Status CheckStatisticsVersion(const std::string& where, uint64_t version);

// CheckStatistics for readers that do not hold all sessions. Borrows the model.
class SessionChecks {
 public:
  SessionChecks(std::string where, const ModelIdentity& model)
      : where_(std::move(where)), model_(model) {}
  // Call for each session once, in order.
  Status Check(const SessionTally& session);
  // For one layer, by its index in the model; after the last session.
  Status CheckPairs(size_t index, const std::vector<uint64_t>& counts) const;

 private:
  std::string where_;
  const ModelIdentity& model_;
  std::set<std::string> names_;
  uint64_t seen_ = 0, tokens_ = 0;  // with and without sinks
};

// Reads either form; the first bytes determine which.
Result<Statistics> ReadStatistics(const std::string& path);
// Writes the binary form if the name ends in .bin, otherwise JSON. `replace` is AtomicFile's.
Status WriteStatistics(const std::string& path, const Statistics& statistics, bool replace = true);
// The bytes that WriteStatistics would write.
std::string StatisticsBytes(const std::string& path, const Statistics& statistics);

}  // namespace moepack
