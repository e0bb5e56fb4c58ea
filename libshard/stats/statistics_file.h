// Statistics in files: JSON, as it is or in frames of zstd (docs/statistics.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/base/text/json_stream.h"
#include "libshard/stats/statistics.h"

namespace moepack {

// Version 2 added the token counts of sessions, version 3 the digests of their tokens; both earlier
// ones are still read.
inline constexpr uint32_t kStatisticsVersion = 3;
inline constexpr uint32_t kFirstStatisticsVersion = 1;
inline constexpr std::string_view kStatisticsFormat = "moepack-statistics";

// Receives what StreamStatistics reads, in this order. An error ends the reading and is returned.
class StatisticsParts {
 public:
  virtual ~StatisticsParts() = default;
  virtual Status Model(const ModelIdentity& model) = 0;
  virtual Status Session(SessionTally session) = 0;
  // The pairs of each layer, in layer order.
  virtual Status Pairs(std::vector<uint64_t> counts) = 0;
};
// Reads JSON, as it is or in frames, one session or one layer's pairs at a time, so that no more is
// in memory. The source may be hostile: kCorrupt for a document in another format or one that
// contradicts itself, kUnsupported for a newer version, and the errors of SourceText. Every part
// has passed its checks when it is handed over, but a later one may still be refused. A document
// whose members are in another order than a writer's is read several times.
Status StreamStatistics(const ByteSource& source, StatisticsParts& parts);

// The JSON in sessions.size() + 2 pieces: what comes before the sessions, each session, the rest.
std::string StatisticsPiece(const Statistics& statistics, size_t index);
// StreamStatistics for a text in any pieces; `open` starts at its beginning.
Status StreamStatisticsText(const std::string& where, const std::function<NextPiece()>& open,
                            StatisticsParts& parts);

// Checks that layers ascend and have experts.
Status CheckModelIdentity(const std::string& where, const ModelIdentity& model);
// kUnsupported for a version that this moepack does not read.
Status CheckStatisticsVersion(const std::string& where, uint64_t version);

// Checks that names of sessions differ, tables have the right size, counts of a layer add up to
// tokens x top-k, pairs do not exceed tokens, token ids ascend and are counted no more often than
// the prefill has tokens, and no number is negative or beyond the limits of statistics.h. Borrows
// the model, which has passed CheckModelIdentity.
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

// All parts in one; what it returns has passed these checks.
Result<Statistics> ReadStatistics(const ByteSource& source);
Result<Statistics> ReadStatistics(const std::string& path);

// Writes JSON; a name that ends in .zst gets it in frames, one for each piece. Returns the bytes
// of the file. What a reader would refuse is an error. `replace` is AtomicFile's.
Result<uint64_t> WriteStatistics(const std::string& path, const Statistics& statistics,
                                 bool replace = true);
// The bytes that WriteStatistics would write.
std::string StatisticsBytes(const std::string& path, const Statistics& statistics);

}  // namespace moepack
