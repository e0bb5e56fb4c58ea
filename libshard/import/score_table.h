// Turns a table of scores, with layers as a file numbers them, into ExpertScores with the layers of
// the model.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/import/import.h"

namespace moepack {

struct ScoreRow {
  uint64_t layer = 0;  // as numbered in the file
  std::vector<double> scores;
};

// A file that does not separate sessions.
struct ScoreTable {
  ScoreBasis basis = ScoreBasis::kCount;
  uint64_t tokens = 0;  // 0 if the file does not say
  uint32_t top_k = 0;   // likewise
  // The file also has rows for blocks without experts, which hold only zeros.
  bool all_blocks = false;
  std::vector<ScoreRow> rows;
  std::vector<std::string> warnings;
};

// Assigns every row to its layer of the model. If the numbers differ but there are as many rows as
// layers, rows are assigned by position, with a warning. kMismatch names the first layer that is
// missing, superfluous or of the wrong size; kCorrupt names one that is duplicate or has an invalid
// score.
Result<ExpertScores> ScoresFromTable(const std::string& where, ScoreTable table,
                                     const ImportOptions& options);

// kInvalidArgument: the options ask for a basis that the file does not have; it has those in
// `found`.
Error WithoutBasis(const std::string& where, std::initializer_list<ScoreBasis> found,
                   ScoreBasis wanted);
// The same for a file with one basis, unless it is the requested one.
Status CheckBasis(const std::string& where, ScoreBasis found, const ImportOptions& options);

// The largest documents are REAP's, with a matrix of pairs per layer that nobody needs.
inline constexpr uint64_t kMaxImportBytes = 1u << 30;
inline constexpr size_t kMaxImportValues = 32u << 20;
// Reads a whole file as JSON; a file too large for these formats is kCorrupt.
Result<Json> ReadImportJson(const ByteSource& file);
// A list of numbers. `where` names it.
Result<std::vector<double>> JsonNumbers(const std::string& where, const Json& value);
// The layer number that is the key of an object.
Result<uint64_t> LayerKey(const std::string& where, const std::string& key);

// The shape of the layer with this number, or of the one at this position; null if the options have
// no model or it has no such layer.
const MoeLayerShape* ModelLayer(const ImportOptions& options, uint64_t layer, size_t position,
                                size_t count);

// Scores for ids listed best first: the number of experts for the first, one less for each
// following id, 0 for those that are not listed. kCorrupt for duplicate ids or ids that the layer
// does not have.
Result<std::vector<double>> ScoresFromRanks(const std::string& where,
                                            const std::vector<uint64_t>& ids,
                                            uint32_t expert_count);
// The warning for scores made from ranks.
std::string RanksWarning(const std::string& where);

// Whether `head` begins with an object that has `text`, a quoted key or value, near its start.
bool JsonHeadHas(std::string_view head, std::string_view text);

}  // namespace moepack
