// From a table of scores, with layers as a file numbers them, to ExpertScores with the layers of
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
  uint64_t layer = 0;  // as the file counts
  std::vector<double> scores;
};

// A file that keeps no sessions apart.
struct ScoreTable {
  ScoreBasis basis = ScoreBasis::kCount;
  uint64_t tokens = 0;  // 0 where the file does not say
  uint32_t top_k = 0;   // likewise
  // The file has rows for blocks without experts as well, and they hold zeros alone.
  bool all_blocks = false;
  std::vector<ScoreRow> rows;
  std::vector<std::string> warnings;
};

// Gives every row its layer of the model. Where the numbers differ but there are as many rows as
// layers, rows are taken by position, with a warning. kMismatch names the first layer that is
// missing, too many or of another size; kCorrupt one that comes twice or holds what is no score.
Result<ExpertScores> ScoresFromTable(const std::string& where, ScoreTable table,
                                     const ImportOptions& options);

// kInvalidArgument: the options want a basis that the file has not; it has those in `found`.
Error WithoutBasis(const std::string& where, std::initializer_list<ScoreBasis> found,
                   ScoreBasis wanted);
// The same for a file with one basis, unless that is the wanted one.
Status CheckBasis(const std::string& where, ScoreBasis found, const ImportOptions& options);

// The largest documents are REAP's, with a matrix of pairs per layer that nobody needs.
inline constexpr uint64_t kMaxImportBytes = 1u << 30;
inline constexpr size_t kMaxImportValues = 32u << 20;
// Reads a file whole as JSON; what is too large to be one of these formats is kCorrupt.
Result<Json> ReadImportJson(const ByteSource& file);
// A list of numbers. `where` names it.
Result<std::vector<double>> JsonNumbers(const std::string& where, const Json& value);
// The number of a layer that is the key of an object.
Result<uint64_t> LayerKey(const std::string& where, const std::string& key);

// The shape of the layer with this number, or of the one at this position; null where the options
// have no model or it has no such layer.
const MoeLayerShape* ModelLayer(const ImportOptions& options, uint64_t layer, size_t position,
                                size_t count);

// Scores for ids in the order best first: as many as there are experts for the first, one less for
// each that follows, 0 for those that are not listed. kCorrupt for ids that come twice or that the
// layer does not have.
Result<std::vector<double>> ScoresFromRanks(const std::string& where,
                                            const std::vector<uint64_t>& ids,
                                            uint32_t expert_count);
// What to say of scores made of ranks.
std::string RanksWarning(const std::string& where);

// Whether `head` begins with an object that has `text`, a quoted key or value, near its start.
bool JsonHeadHas(std::string_view head, std::string_view text);

}  // namespace moepack
