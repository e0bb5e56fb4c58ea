#include "libshard/stats/statistics_file.h"

#include <cfloat>
#include <optional>
#include <string_view>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/text.h"
#include "libshard/stats/session_digest.h"

namespace moepack {
namespace {

constexpr const char* kOtherPairs =
    ": co_selection: expected one count for each pair of experts of each layer, found another "
    "number";

// False also for NaN, for which every comparison is false.
bool IsSum(double value, double most) { return value >= 0 && value <= most; }

// Returns what makes the numbers of an expert impossible; null if nothing does.
const char* Problem(const ExpertTally& expert, const PhaseTally& phase) {
  if (expert.count > phase.tokens) return "at most as many tokens as the phase has";
  if (!IsSum(expert.gate_mass, kMaxGateMass) || !IsSum(expert.odd_gate_mass, kMaxGateMass) ||
      !IsSum(expert.weighted_norm, kMaxWeightedNorm) || !IsSum(double{expert.peak}, FLT_MAX))
    return "finite sums that are not negative and not beyond their limits";
  if (expert.count == 0 && (expert.gate_mass > 0 || expert.weighted_norm > 0))
    return "no mass without a token";
  if (expert.odd_gate_mass > expert.gate_mass) return "no more odd mass than mass";
  return nullptr;
}

Status CheckPhase(const std::string& where, const ModelIdentity& model, const PhaseTally& phase) {
  const auto wrong = [&](size_t layer, const std::string& expected) {
    return Error{Code::kCorrupt, Cat(where, ": layer ", model.layers[layer].layer, ": expected ",
                                     expected, ", found something else")};
  };
  if (phase.layers.empty()) {
    if (phase.tokens == 0 && phase.sinks == 0) return Ok();
    return Error{Code::kCorrupt, Cat(where, ": expected layers for its tokens, found none")};
  }
  if (phase.layers.size() != model.layers.size())
    return Error{Code::kCorrupt, Cat(where, ": layers: expected ", model.layers.size(), ", found ",
                                     phase.layers.size())};
  for (size_t i = 0; i < phase.layers.size(); ++i) {
    if (phase.layers[i].size() != model.layers[i].expert_count)
      return wrong(i, Plural(model.layers[i].expert_count, "expert"));
    uint64_t choices = 0;  // wraps where the product does: 2^53 tokens x 4096 experts are 2^65
    for (const ExpertTally& expert : phase.layers[i]) {
      if (const char* problem = Problem(expert, phase)) return wrong(i, problem);
      choices += expert.count;
    }
    // Every counted token chooses top-k different experts in every layer.
    if (choices != phase.tokens * model.layers[i].top_k)
      return wrong(
          i, Cat("counts that add up to ", phase.tokens, " tokens x top-", model.layers[i].top_k));
  }
  return Ok();
}

Status CheckTokenCounts(const std::string& where, const SessionTally& session) {
  const auto wrong = [&](const auto&... what) {
    return Error{Code::kCorrupt, Cat(where, ": token_counts: ", what...)};
  };
  uint64_t sum = 0;
  for (size_t i = 0; i < session.token_counts.size(); ++i) {
    const auto& [id, count] = session.token_counts[i];
    if (id > kMaxStatisticsTokenId)
      return wrong("expected ids up to ", kMaxStatisticsTokenId, ", found ", id);
    if (i > 0 && id <= session.token_counts[i - 1].first)
      return wrong("expected ascending ids, found ", id, " after ",
                   session.token_counts[i - 1].first);
    if (count == 0) return wrong("id ", id, ": expected a count of at least 1, found 0");
    sum += count;
  }
  const uint64_t tokens = session.phases[static_cast<size_t>(Phase::kPrefill)].tokens;
  if (sum <= tokens) return Ok();
  return wrong("expected at most the ", Plural(tokens, "token"), " of the prefill, found ", sum);
}

}  // namespace

Status CheckModelIdentity(const std::string& where, const ModelIdentity& model) {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::kCorrupt, Cat(where, ": model: ", what)};
  };
  if (!IsXxh3Hex(model.router_digest))
    return wrong(
        Cat("router_digest: expected 32 hexadecimal digits, found ", Quoted(model.router_digest)));
  if (model.layers.empty() || model.layers.size() > kMaxStatisticsLayers)
    return wrong(
        Cat("layers: expected 1 to ", kMaxStatisticsLayers, ", found ", model.layers.size()));
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const MoeLayerShape& shape = model.layers[i];
    if (shape.layer >= kMaxStatisticsLayers || (i > 0 && shape.layer <= model.layers[i - 1].layer))
      return wrong(Cat("layers: expected ascending numbers, found ", shape.layer));
    if (shape.expert_count == 0 || shape.expert_count > kMaxStatisticsExperts)
      return wrong(Cat("layer ", shape.layer, ": experts: expected 1 to ", kMaxStatisticsExperts,
                       ", found ", shape.expert_count));
    if (shape.top_k == 0 || shape.top_k > shape.expert_count)
      return wrong(Cat("layer ", shape.layer, ": top_k: expected 1 to ", shape.expert_count,
                       ", found ", shape.top_k));
  }
  return Ok();
}

Status CheckStatisticsVersion(const std::string& where, uint64_t version) {
  if (version >= kFirstStatisticsVersion && version <= kStatisticsVersion) return Ok();
  return Error{Code::kUnsupported, Cat(where, ": version: expected ", kFirstStatisticsVersion,
                                       " to ", kStatisticsVersion, ", found ", version)};
}

// Names of sessions must differ, because merging uses them to find out what is already there.
Status SessionChecks::Check(const SessionTally& session) {
  const std::string place = Cat(where_, ": session ", Quoted(session.name));
  if (!names_.insert(session.name).second)
    return Error{Code::kCorrupt, Cat(place, ": expected once, found twice"),
                 "its tokens would count twice: make the statistics again"};
  for (const PhaseTally& phase : session.phases) {
    for (const uint64_t tokens : {phase.tokens, phase.sinks}) {
      if (tokens > kMaxStatisticsTokens - seen_)
        return Error{Code::kCorrupt, Cat(where_, ": tokens: expected at most ",
                                         kMaxStatisticsTokens, " in all sessions, found more")};
      seen_ += tokens;
    }
  }
  for (size_t i = 0; i < session.phases.size(); ++i) {
    SHARD_CHECK(CheckPhase(Cat(place, ": ", kPhaseNames[i]), model_, session.phases[i]));
    tokens_ += session.phases[i].tokens;
  }
  if (!session.tokens_digest.empty() && !IsSessionDigest(session.tokens_digest))
    return Error{Code::kCorrupt,
                 Cat(place, ": tokens_digest: expected 16 hexadecimal digits, found ",
                     Quoted(session.tokens_digest))};
  return CheckTokenCounts(place, session);
}

Status SessionChecks::CheckPairs(size_t index, const std::vector<uint64_t>& counts) const {
  const MoeLayerShape& layer = model_.layers[index];
  if (counts.size() != PairCount(layer.expert_count))
    return Error{Code::kCorrupt, Cat(where_, kOtherPairs)};
  for (const uint64_t count : counts) {
    if (count > tokens_)
      return Error{Code::kCorrupt,
                   Cat(where_, ": co_selection: layer ", layer.layer, ": expected at most ",
                       tokens_, " tokens for a pair, found ", count)};
  }
  return Ok();
}

namespace {

// All parts in one.
class WholeStatistics final : public StatisticsParts {
 public:
  Status Model(const ModelIdentity& model) override {
    statistics_.model = model;
    return Ok();
  }
  Status Session(SessionTally session) override {
    statistics_.sessions.push_back(std::move(session));
    return Ok();
  }
  Status Pairs(std::vector<uint64_t> counts) override {
    statistics_.co_selection.push_back(std::move(counts));
    return Ok();
  }
  Statistics Take() { return std::move(statistics_); }

 private:
  Statistics statistics_;
};

// Compares parts with those that were written.
class SameStatistics final : public StatisticsParts {
 public:
  SameStatistics(const std::string& path, const Statistics& written)
      : path_(path), written_(written) {}

  Status Model(const ModelIdentity& model) override { return Compare(model == written_.model); }
  Status Session(SessionTally session) override {
    return Compare(session == written_.sessions[sessions_++]);
  }
  Status Pairs(std::vector<uint64_t> counts) override {
    return Compare(counts == written_.co_selection[pairs_++]);
  }

 private:
  Status Compare(bool same) const {
    if (same) return Ok();
    return Error{Code::kUnsupported,
                 Cat(path_,
                     ": expected statistics that read as they were written, found text that "
                     "is not UTF-8")};
  }

  const std::string& path_;
  const Statistics& written_;
  size_t sessions_ = 0, pairs_ = 0;
};

size_t PieceCount(const Statistics& statistics) { return statistics.sessions.size() + 2; }

bool GetsFrames(const std::string& path) { return path.ends_with(kZstdSuffix); }

}  // namespace

Status StreamStatistics(const ByteSource& source, StatisticsParts& parts) {
  std::optional<SourceText> text;
  const auto open = [&]() -> NextPiece {
    text.emplace(source);
    return [&] { return text->Next(); };
  };
  SHARD_CHECK(StreamStatisticsText(source.name(), open, parts));
  return source.CheckUnchanged();
}

Result<Statistics> ReadStatistics(const ByteSource& source) {
  WholeStatistics statistics;
  SHARD_CHECK(StreamStatistics(source, statistics));
  return statistics.Take();
}

Result<Statistics> ReadStatistics(const std::string& path) {
  SHARD_TRY(const Source source, LocalSource(path));
  if (source.file.empty())
    return Error{Code::kInvalidArgument,
                 Cat(path, ": expected a file of statistics, found a directory")};
  SHARD_TRY(const ByteSourcePtr file, source.tree->Open(source.file));
  return ReadStatistics(*file);
}

std::string StatisticsBytes(const std::string& path, const Statistics& statistics) {
  std::string bytes;
  ZstdWriter zstd;
  for (size_t i = 0; i < PieceCount(statistics); ++i) {
    const std::string piece = StatisticsPiece(statistics, i);
    bytes += GetsFrames(path) ? zstd.Frame(piece) : piece;
  }
  return bytes;
}

// A long profile must not end in a file that no reader accepts, so what is written is read on its
// way.
Result<uint64_t> WriteStatistics(const std::string& path, const Statistics& statistics,
                                 bool replace) {
  SHARD_TRY(AtomicFile file, AtomicFile::Create(path, replace));
  ZstdWriter zstd;
  std::string piece;
  size_t index = 0;
  uint64_t text = 0, bytes = 0;
  const NextPiece next = [&]() -> Result<std::string_view> {
    if (index == PieceCount(statistics)) return std::string_view();
    piece = StatisticsPiece(statistics, index++);
    const std::string written = GetsFrames(path) ? zstd.Frame(piece) : piece;
    text += piece.size();
    bytes += written.size();
    SHARD_CHECK(file.Write(written));
    return std::string_view(piece);
  };
  SameStatistics same(path, statistics);
  SHARD_CHECK(StreamStatisticsText(
      path, [&] { return next; }, same));
  if (GetsFrames(path) && text > MostZstdText(bytes))
    return Error{Code::kUnsupported,
                 Cat(path, ": expected at most ", MostZstdText(bytes), " bytes of JSON in ", bytes,
                     " bytes of zstd, found ", text),
                 "give it a name that ends in .json"};
  SHARD_CHECK(file.Commit());
  return bytes;
}

}  // namespace moepack
