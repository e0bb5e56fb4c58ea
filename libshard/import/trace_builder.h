// Collects rows that arrive layer by layer or token by token into one RouteTrace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/result.h"
#include "libshard/import/route_trace.h"

namespace moepack {

// Reads a text file line by line, whatever its size, as it is or in zstd.
class TraceLines {
 public:
  // Borrows the source.
  explicit TraceLines(const ByteSource& source) : name_(source.name()), text_(source) {}

  // The next line without its end (LF or CR LF), valid until the next call; no value after the
  // last. kCorrupt for a line that is longer than any row.
  Result<std::optional<std::string_view>> Next();
  // kCorrupt: the line that Next returned last is wrong.
  Error Wrong(std::string_view expected, std::string_view found) const;
  const std::string& Name() const { return name_; }
  // "trace.csv: line 12".
  std::string Where() const;
  // XXH3-128 of everything read.
  std::string Digest() const { return digest_.Hex(); }

 private:
  Status Fill();

  const std::string& name_;
  SourceText text_;
  Xxh3 digest_;
  std::string buffer_;
  size_t next_ = 0;  // of the first byte in buffer_ that is not part of a returned line
  uint64_t number_ = 0;
  bool ended_ = false;
};

// Splits at commas, reusing the same vector.
void SplitTraceRow(std::string_view line, std::vector<std::string_view>& fields);

inline constexpr uint32_t kMaxTraceTurn = (uint32_t{1} << 31) - 1;

// One chosen expert. Ranks are in the order of the rows.
struct TraceChoice {
  uint32_t turn = 0;  // at most kMaxTraceTurn
  Phase phase = Phase::kPrefill;
  uint32_t position = 0;
  uint32_t layer = 0;
  uint32_t expert = 0;
  std::optional<float> weight;  // no value: the file does not have it
};

class TraceBuilder {
 public:
  // `path` is for messages.
  TraceBuilder(std::string path, const TraceOptions& options);

  // The number of experts of every layer, or of one layer, as the file states it. kCorrupt beyond
  // the limits. The messages name no place; the caller puts it in front (Error::Within).
  Status StateExperts(uint64_t expert_count);
  Status StateExperts(uint32_t layer, uint64_t expert_count);
  Status StateBytes(uint32_t layer, uint64_t expert_bytes);
  // The rows of a layer come by turn, phase and position; those of one step are consecutive.
  // kCorrupt if they are not, or the expert is wrong; kMismatch if the model has no such expert.
  Status Add(const TraceChoice& choice);
  uint64_t choices() const { return choices_; }
  const TraceOptions& options() const { return options_; }

  // `turns` name turns by their number in the choices; others have no name. In the result turns are
  // numbered from 0. kCorrupt if there are no rows, kMismatch if the model has a different number
  // of experts. Messages begin with the path.
  Result<RouteTrace> Finish(const std::map<uint32_t, TraceTurn>& turns);

 private:
  struct Rows {
    LayerTrace trace;                          // without steps
    const MoeLayerShape* model = nullptr;      // of options_; null if it is not known
    std::optional<uint32_t> experts, largest;  // as stated; the largest id
    std::vector<uint64_t> keys;                // of the steps
    bool weighted = true;
  };
  Result<Rows*> RowsOf(uint32_t layer);
  Status CheckExpert(const TraceChoice& choice, Rows& rows) const;
  Status SetShapes(RouteTrace& trace);

  std::string path_;
  TraceOptions options_;
  std::optional<uint32_t> experts_;  // stated for all layers
  std::map<uint32_t, Rows> layers_;
  Rows* last_ = nullptr;  // of the previous row
  uint32_t last_layer_ = 0;
  uint64_t choices_ = 0;
};

// The readers, one for each form; errors are those of ReadRouteTrace.
Result<RouteTrace> ReadTraceTable(const ByteSource& source, const TraceOptions& options);
Result<RouteTrace> ReadTraceRuns(const ByteSource& source, const TraceOptions& options);
Result<RouteTrace> ReadTraceExport(const ByteSource& source, const TraceOptions& options);

}  // namespace moepack
