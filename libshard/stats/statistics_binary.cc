// The compact form. Little-endian; a "number" is an unsigned LEB128 (seven bits per byte, lowest
// first, top bit: another byte follows), a "text" is a number of bytes and those bytes in UTF-8.
//
//   bytes   field
//   0-7     magic "MOESTATS"
//   8-11    u32 version
//   12-19   u64 bytes of the payload
//   20-35   XXH3-128 of the payload, canonical (big-endian) form
//   36-     payload
//
// The payload has the fields of statistics.h in their order; docs/statistics.md lists them.
#include <algorithm>
#include <array>
#include <cstring>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/stats/statistics_file.h"

namespace moepack {
namespace {

constexpr size_t kHeaderBytes = 36;
constexpr size_t kDigestOffset = 20;
constexpr size_t kMaxText = 1u << 20;
constexpr int kMaxNumberBytes = 10;
// The versions that added these fields.
constexpr uint32_t kTokenCountsVersion = 2, kTokensDigestVersion = 3;

// Bytes of the caller as a source.
class SpanSource final : public ByteSource {
 public:
  SpanSource(const std::string& name, std::span<const std::byte> bytes)
      : name_(name), bytes_(bytes) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& identity() const override { return name_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return EndsEarly(name_, offset, out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return Ok();
  }
  Status CheckUnchanged() const override { return Ok(); }

 private:
  const std::string& name_;
  std::span<const std::byte> bytes_;
};

// Reads a source from `start` on, part by part and never past its end. The first thing that is
// missing, malformed or unreadable is kept as problem(), and everything after it reads as zero.
class Reader {
 public:
  Reader(const ByteSource& source, uint64_t start) : source_(source), next_(start) {}

  const char* problem() const { return problem_; }
  // Why the source could not be read; Ok if it could.
  const Status& status() const { return status_; }
  bool at_end() const { return left() == 0; }
  uint64_t left() const { return problem_ ? 0 : bytes_.size() + (source_.size() - next_); }

  uint64_t Number() {
    uint64_t value = 0;
    for (int i = 0; i < kMaxNumberBytes; ++i) {
      const std::span<const std::byte> taken = Take(1);
      const uint64_t byte = taken.empty() ? 0 : static_cast<uint64_t>(taken[0]);
      // Nine bytes hold 63 bits, so the tenth has room for one.
      if (i == kMaxNumberBytes - 1 && byte > 1) break;  // more than 64 bits
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) return value;
    }
    return Fail("a number of at most 64 bits");
  }
  // Reads a number of at most `most`.
  uint64_t Number(uint64_t most, const char* expected) {
    const uint64_t value = Number();
    return value <= most ? value : Fail(expected);
  }
  std::string Text() {
    const std::span<const std::byte> bytes = Take(Number(kMaxText, "a text below 1 MiB"));
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!IsUtf8(text)) Fail("text in UTF-8");
    return text;
  }
  template <class T>
  T Float() {
    const std::span<const std::byte> bytes = Take(sizeof(T));
    return bytes.empty() ? T{} : LoadLe<T>(bytes);
  }
  uint64_t Fail(const char* expected) {
    if (!problem_) problem_ = expected;
    bytes_ = {};
    return 0;
  }

 private:
  // `count` is at most kMaxText.
  std::span<const std::byte> Take(uint64_t count) {
    if (count > bytes_.size() && !Refill(count)) return {};
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  bool Refill(uint64_t count) {
    if (count > left()) {
      Fail("more bytes");
      return false;
    }
    // What is left of the window moves to the front of the next one, since a field may cross the
    // border.
    const size_t kept = bytes_.size();
    std::vector<std::byte> window(kept + std::min<uint64_t>(source_.size() - next_, kWindow));
    std::copy(bytes_.begin(), bytes_.end(), window.begin());
    status_ = source_.ReadAt(next_, std::span(window).subspan(kept));
    if (!status_) {
      Fail("bytes that can be read");
      return false;
    }
    next_ += window.size() - kept;
    window_ = std::move(window);
    bytes_ = window_;
    return true;
  }

  static constexpr uint64_t kWindow = kMaxText;

  const ByteSource& source_;
  uint64_t next_ = 0;  // in the source, after the window
  std::vector<std::byte> window_;
  std::span<const std::byte> bytes_;  // the part of the window not taken yet
  Status status_ = Ok();
  const char* problem_ = nullptr;
};

ModelIdentity ReadModel(Reader& in) {
  ModelIdentity model;
  for (std::string* text : {&model.name, &model.architecture, &model.model_version,
                            &model.shard_version, &model.replica_version, &model.router_digest}) {
    *text = in.Text();
  }
  const uint64_t layers = in.Number(kMaxStatisticsLayers, "a number of layers");
  for (uint64_t i = 0; i < layers && !in.problem(); ++i) {
    MoeLayerShape shape;
    shape.layer = static_cast<uint32_t>(in.Number(UINT32_MAX, "a layer"));
    shape.expert_count = static_cast<uint32_t>(in.Number(UINT32_MAX, "a number of experts"));
    shape.top_k = static_cast<uint32_t>(in.Number(UINT32_MAX, "a top-k"));
    model.layers.push_back(shape);
  }
  return model;
}

ExpertTally ReadExpert(Reader& in) {
  ExpertTally expert;
  expert.count = in.Number();
  expert.peak = in.Float<float>();
  if (expert.count == 0) return expert;
  expert.gate_mass = in.Float<double>();
  expert.odd_gate_mass = in.Float<double>();
  expert.weighted_norm = in.Float<double>();
  return expert;
}

// An expert takes at least five bytes and a pair one. Counts are checked against the remaining
// bytes before a table is allocated.
constexpr size_t kLeastExpertBytes = 5;

PhaseTally ReadPhase(const ModelIdentity& model, Reader& in) {
  PhaseTally phase;
  phase.tokens = in.Number();
  phase.sinks = in.Number();
  const uint64_t layers = in.Number(model.layers.size(), "the layers of the model");
  for (uint64_t i = 0; i < layers && !in.problem(); ++i) {
    const uint64_t experts = model.layers[i].expert_count;
    if (experts * kLeastExpertBytes > in.left()) in.Fail("more bytes");
    LayerTally layer;
    for (uint64_t id = 0; id < experts && !in.problem(); ++id) layer.push_back(ReadExpert(in));
    phase.layers.push_back(std::move(layer));
  }
  return phase;
}

// An entry takes at least two bytes.
constexpr size_t kLeastTokenBytes = 2;

TokenCounts ReadTokenCounts(Reader& in) {
  const uint64_t size = in.Number(in.left() / kLeastTokenBytes, "more bytes");
  TokenCounts token_counts;
  uint64_t least = 0;
  for (uint64_t i = 0; i < size && !in.problem(); ++i) {
    const uint64_t id = least + in.Number(kMaxStatisticsTokenId, "the distance to a token id");
    const uint64_t count = in.Number(UINT32_MAX, "a count below 2^32");
    token_counts.emplace_back(static_cast<uint32_t>(std::min<uint64_t>(id, UINT32_MAX)),
                              static_cast<uint32_t>(count));
    least = id + 1;
  }
  return token_counts;
}

SessionTally ReadSession(const ModelIdentity& model, uint32_t version, Reader& in) {
  SessionTally session;
  for (std::string* text :
       {&session.name, &session.bucket, &session.executor, &session.precision}) {
    *text = in.Text();
  }
  for (PhaseTally& phase : session.phases) phase = ReadPhase(model, in);
  if (version >= kTokenCountsVersion) session.token_counts = ReadTokenCounts(in);
  if (version >= kTokensDigestVersion) session.tokens_digest = in.Text();
  return session;
}

std::vector<uint64_t> ReadPairs(const MoeLayerShape& shape, Reader& in) {
  const uint64_t pairs = PairCount(shape.expert_count);
  std::vector<uint64_t> counts;
  if (pairs > in.left()) {
    in.Fail("more bytes");
    return counts;
  }
  counts.reserve(pairs);
  for (uint64_t i = 0; i < pairs && !in.problem(); ++i) counts.push_back(in.Number());
  return counts;
}

Error Broken(const std::string& where, const Reader& in) {
  if (!in.status()) return in.status().error();
  return {Code::kCorrupt,
          Cat(where, ": payload: expected ", in.problem(), ", found something else")};
}

Result<std::string> DigestFrom(const ByteSource& source, uint64_t start) {
  Xxh3 digest;
  std::vector<std::byte> step(ScanStep(source));
  for (uint64_t at = start; at < source.size();) {
    const auto part = std::span(step).first(std::min<uint64_t>(source.size() - at, step.size()));
    SHARD_CHECK(source.ReadAt(at, part));
    digest.Update(part);
    at += part.size();
  }
  return digest.Hex();
}

// The payload is hashed before any of it is trusted. Returns the version of the file.
Result<uint32_t> CheckHeader(const ByteSource& source) {
  const std::string& where = source.name();
  std::array<std::byte, kHeaderBytes> bytes_of_header = {};
  const std::span<std::byte> bytes = bytes_of_header;
  if (source.size() >= kHeaderBytes) SHARD_CHECK(source.ReadAt(0, bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (source.size() < kHeaderBytes || !text.starts_with(kStatisticsMagic))
    return Error{Code::kCorrupt, Cat(where, ": expected statistics, found another file")};
  const uint32_t version = LoadLe<uint32_t>(bytes.subspan(8));
  SHARD_CHECK(CheckStatisticsVersion(where, version));
  const uint64_t stated = LoadLe<uint64_t>(bytes.subspan(12));
  const uint64_t payload = source.size() - kHeaderBytes;
  if (stated != payload)
    return Error{Code::kCorrupt,
                 Cat(where, ": payload: expected ", stated, " bytes, found ", payload)};
  const auto* digest = reinterpret_cast<const unsigned char*>(bytes.data()) + kDigestOffset;
  SHARD_TRY(const std::string found, DigestFrom(source, kHeaderBytes));
  if (Hex(digest, kHeaderBytes - kDigestOffset) != found)
    return Error{Code::kCorrupt,
                 Cat(where, ": digest: expected that of the payload, found another"),
                 "the file is damaged: make it again"};
  return version;
}

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

}  // namespace

Status StreamStatistics(const ByteSource& source, StatisticsParts& parts) {
  const std::string& where = source.name();
  SHARD_TRY(const uint32_t version, CheckHeader(source));
  Reader in(source, kHeaderBytes);
  const ModelIdentity model = ReadModel(in);
  if (in.problem()) return Broken(where, in);
  SHARD_CHECK(CheckModelIdentity(where, model));
  SHARD_CHECK(parts.Model(model));
  SessionChecks checks(where, model);
  const uint64_t sessions = in.Number();
  for (uint64_t i = 0; i < sessions && !in.problem(); ++i) {
    SessionTally session = ReadSession(model, version, in);
    if (in.problem()) break;
    SHARD_CHECK(checks.Check(session));
    SHARD_CHECK(parts.Session(std::move(session)));
  }
  for (size_t i = 0; i < model.layers.size() && !in.problem(); ++i) {
    std::vector<uint64_t> counts = ReadPairs(model.layers[i], in);
    if (in.problem()) break;
    SHARD_CHECK(checks.CheckPairs(i, counts));
    SHARD_CHECK(parts.Pairs(std::move(counts)));
  }
  if (!in.problem() && !in.at_end()) in.Fail("nothing after the pairs");
  if (in.problem()) return Broken(where, in);
  return source.CheckUnchanged();
}

Result<Statistics> StatisticsFromBinary(const std::string& where,
                                        std::span<const std::byte> bytes) {
  WholeStatistics statistics;
  SHARD_CHECK(StreamStatistics(SpanSource(where, bytes), statistics));
  return statistics.Take();
}

}  // namespace moepack
